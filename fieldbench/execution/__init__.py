"""Where trials run: joblib picks the machine, a slot picks the device, a worker process runs the trial."""
