"""A run's folder: ``manifest.json`` says what was asked for, ``trials.jsonl`` holds one record a line."""
