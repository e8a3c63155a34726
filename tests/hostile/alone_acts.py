"""What a plugin does while a request is read or the data is looked at: a refusal in one line is right there, too."""

from __future__ import annotations

from tests.hostile.plugins import EITHER, FAILS, Act, acts

#: The way a class is made, and how a method is modified: FAILS means that nothing may run.
CLASSES = [
    *acts(
        "model_post_init",
        {
            "made-exits": (FAILS, "sys.exit(0)"),
            "made-interrupts": (FAILS, "raise KeyboardInterrupt"),
            "made-raises": (FAILS, "raise ValueError"),
            "made-text-exits": (
                FAILS,
                """
                class Odd(Exception):
                    def __str__(self):
                        sys.exit(0)
                raise Odd
                """,
            ),
            "made-text-escapes": (FAILS, "raise KeyError('\\x1b[2J\\nsecond')"),
        },
    ),
    *acts(
        "complete",
        {"validator-exits": (FAILS, "pass")},
        extra="""
                level: int = 1

                @pydantic.field_validator('level')
                @classmethod
                def check(cls, value):
                    sys.exit(0)
                """,
        module="import pydantic",
    ),
    *acts(
        "complete",
        {"parameter-names-exit": (FAILS, "pass")},
        extra="""
                @classmethod
                def parameter_names(cls):
                    sys.exit(0)
                """,
    ),
    *acts(
        "complete",
        {"parameters-return-text": (EITHER, "pass")},
        extra="""
                def parameters(self):
                    return 'many'
                """,
    ),
    *acts(
        "complete",
        {"text-form-exits": (FAILS, "pass")},
        extra="""
                def __str__(self):
                    sys.exit(0)
                """,
    ),
    *acts(
        "complete",
        {"text-form-is-none": (EITHER, "pass")},
        extra="""
                def __str__(self):
                    return None
                """,
    ),
    *acts(
        "complete",
        {"text-form-lies": (EITHER, "pass")},
        extra="""
                def __str__(self):
                    return 'flat'
                """,
    ),
    *acts("complete", {"revision-is-evil": (EITHER, "pass")}, extra="revision = Evil()"),
    *acts("complete", {"uses-gpu-is-text": (EITHER, "pass")}, extra="uses_gpu = 'sometimes'"),
    *(
        act
        for name, where in {
            "uses-gpu": "uses_gpu",
            "libraries": "libraries",
            "orders": "orders",
            "accepts": "accepts",
            "trained": "trained",
            "pointwise": "pointwise",
        }.items()
        for act in acts(
            "complete", {f"{name}-exits": (FAILS, "pass")}, extra=f"@property\ndef {where}(self):\n    sys.exit(0)"
        )
    ),
    *acts("complete", {"packing-exits": (FAILS, "pass")}, extra="def __reduce__(self):\n    sys.exit(0)"),
    *acts(
        "complete", {"packing-interrupts": (FAILS, "pass")}, extra="def __reduce__(self):\n    raise KeyboardInterrupt"
    ),
    *acts("complete", {"packing-is-evil": (FAILS, "pass")}, extra="def __reduce__(self):\n    return os._exit, (77,)"),
    *acts("complete", {"state-exits": (FAILS, "pass")}, extra="def __getstate__(self):\n    sys.exit(0)"),
    *acts("complete", {"libraries-number": (EITHER, "pass")}, extra="libraries = 5"),
    *acts("complete", {"accepts-nothing-sensible": (EITHER, "pass")}, extra="accepts = 5"),
    *acts("complete", {"orders-are-text": (EITHER, "pass")}, extra="orders = 'any'"),
    *acts(
        "modify",
        {
            "modify-exits": (FAILS, "sys.exit(0)"),
            "modify-interrupts": (FAILS, "raise KeyboardInterrupt"),
            "modify-raises": (FAILS, "raise ValueError"),
            "modify-none": (FAILS, "return None"),
            "modify-text": (FAILS, "return 'flat'"),
            "modify-class": (FAILS, "return type(method)"),
            "modify-text-escapes": (FAILS, "raise fieldbench.RequestError('\\x1b[2J\\nsecond')"),
        },
    ),
]

#: A dataset as the look at the data before a run finds it.
DATA = [
    *acts(
        "dataset.draw",
        {
            "sight-raises": (FAILS, "raise ValueError"),
            "sight-nan": (FAILS, "return Field(np.full((8, 8), np.nan))"),
            "sight-complex": (FAILS, "return Field(np.full((8, 8), 1j))"),
            "sight-empty": (FAILS, "return Field(np.zeros((0, 8)))"),
            "sight-none": (FAILS, "return None"),
            "sight-evil": (FAILS, "return Evil()"),
        },
    ),
    *acts(
        "dataset.prepare",
        {
            "sight-prepare-raises": (FAILS, "raise OSError"),
            "sight-prepare-unavailable": (FAILS, "raise fieldbench.DataUnavailable('ask\\x1b[2J\\nthem')"),
        },
    ),
    *acts("dataset.fingerprint", {"sight-fingerprint-raises": (FAILS, "raise OSError")}),
    *acts("dataset.draw", {"metric-unknown": (FAILS, "")}, extra="metric = 'no-such'"),
    *acts("dataset.draw", {"metric-number": (FAILS, "")}, extra="metric = 5"),
    *acts(
        "dataset.draw",
        {"metric-exits": (FAILS, "")},
        extra="""
                @property
                def metric(self):
                    sys.exit(0)
                """,
    ),
    *acts(
        "dataset.draw",
        {"fixed-field-exits": (FAILS, "")},
        extra="""
                @property
                def fixed_field(self):
                    sys.exit(0)
                """,
    ),
    *acts("dataset.draw", {"metric-inapplicable": (FAILS, "")}, extra="metric = 'slnre'"),
    *acts("dataset.draw", {"sampler-unknown": (FAILS, "")}, extra="default_sampler = 'no-such'"),
    *acts("dataset.draw", {"sampler-none": (FAILS, "")}, extra="default_sampler = None"),
    *acts("dataset.draw", {"rates-text": (FAILS, "")}, extra="default_rates = 'half'"),
    *acts("dataset.draw", {"rates-empty": (EITHER, "")}, extra="default_rates = ()"),
    *acts("dataset.draw", {"rates-nan": (FAILS, "")}, extra="default_rates = (float('nan'),)"),
    *acts("check_shape", {"shape-refused": (FAILS, "raise ValueError('a window\\x1b[2J too\\nlarge')")}),
]

#: A metric that heads a dataset's table: whatever is wrong with it is wrong with the request.
HEADLINES = [
    *(
        Act(f"metric.{function}", f"head-{name}", FAILS, body)
        for function, name, body in (
            ("score", "raises", "raise ValueError"),
            ("score", "exits", "sys.exit(0)"),
            ("score", "ends", "os._exit(0)"),
            ("score", "segfault", "segfault()"),
            ("score", "none", "return None"),
            ("applies_to", "applies-raises", "raise ValueError"),
            ("applies_to", "applies-nowhere", "return False"),
            ("for_field", "adapts-to-none", "return None"),
        )
    ),
    *acts(
        "metric.score",
        {"direction-exits": (FAILS, "")},
        extra="""
                @property
                def lower_is_better(self):
                    sys.exit(0)
                """,
    ),
]

ACTS = [*CLASSES, *DATA, *HEADLINES]
