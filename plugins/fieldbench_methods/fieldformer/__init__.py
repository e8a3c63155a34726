"""FieldFormer: the tensor attention prior (TAP) and its multi-head form (MHTAP)."""
