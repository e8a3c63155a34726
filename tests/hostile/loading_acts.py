"""What plugins do while they are loaded: in the process that reads the request, and in those that come later."""

from __future__ import annotations

from tests.hostile.commands import Group
from tests.hostile.plugins import EITHER, FAILS, HARMS_ITSELF, PASSES, acts

#: Where another process loads the file than the one that reads the request.
LATER_IMPORTS = [
    *acts(
        "import",
        {
            "import-exits": (FAILS, "sys.exit(0)"),
            "import-ends": (FAILS, "os._exit(0)"),
            "import-interrupts": (FAILS, "raise KeyboardInterrupt"),
            "import-raises": (FAILS, "raise ImportError('half written')", "half written"),
            "import-text-exits": (
                FAILS,
                """
                class Odd(Exception):
                    def __str__(self):
                        sys.exit(0)
                raise Odd
                """,
            ),
            "import-segfault": (FAILS, "segfault()"),
            "import-closes-everything": (FAILS, "os.closerange(3, 256)"),
            "import-forgets-its-hook": (PASSES, "fieldbench.hookimpl = lambda function: function"),
            "import-writes-to-descriptors": (EITHER, "write_everywhere(bytes(range(256)))"),
            "import-forks": (EITHER, "os.fork()"),
            "import-daemon": (PASSES, "daemon()"),
            "import-patches-numpy": (HARMS_ITSELF, "np.sqrt = np.abs = np.isfinite = lambda *_, **__: np.float64(0)"),
            "import-patches-metric": (
                PASSES,
                """
                import fieldbench.metric as m
                m.RMSE.score = lambda *_: 0.0
                """,
            ),
            "import-patches-neighbours": (
                PASSES,
                """
                import importlib
                for name in list(sys.modules):
                    if name.startswith('fieldbench_') and name != __name__:
                        vars(sys.modules[name]).clear()
                """,
            ),
            "import-patches-base-class": (EITHER, "fieldbench.Method.__init_subclass__ = None"),
            "import-prints": (PASSES, "print('\\x1b[2J' * 10**5, flush=True)"),
        },
    ),
]

SLOW_IMPORTS = [
    *acts("import", {"import-loops": (EITHER, "loop()"), "import-stops-itself": (EITHER, "os.kill(os.getpid(), 19)")}),
]

GROUPS = {
    group.name: group
    for group in (
        Group("later-imports", tuple(LATER_IMPORTS), ("--jobs", "1")),
        Group("slow-imports", tuple(SLOW_IMPORTS), ("--jobs", "2"), trials=1),
    )
}

#: Lines of a module that cannot be a plugin, and a pattern of the one line that is said about each.
BROKEN = {
    "exits": (
        """
                import sys
                sys.exit(0)
                """,
        "SystemExit",
    ),
    "exits-with-none": (
        """
                import sys
                sys.exit()
                """,
        "SystemExit",
    ),
    "exits-with-text": (
        """
                import sys
                sys.exit('all is well')
                """,
        "SystemExit: all is well",
    ),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "raises-far-up": (
        """
                class Odd(BaseException): pass
                raise Odd('far up')
                """,
        "Odd: far up",
    ),
    "raises-without-text": ("raise ValueError", "ValueError"),
    "raises-group": ("raise BaseExceptionGroup('many', [KeyboardInterrupt()])", "BaseExceptionGroup: many"),
    "text-exits": (
        """
                class Odd(Exception):
                    def __str__(self):
                        raise SystemExit(0)
                raise Odd
                """,
        "Odd",
    ),
    "text-interrupts": (
        """
                class Odd(Exception):
                    def __str__(self):
                        raise KeyboardInterrupt
                raise Odd
                """,
        "Odd",
    ),
    "text-is-no-text": (
        """
                class Odd(Exception):
                    def __str__(self):
                        return 5
                raise Odd
                """,
        "Odd",
    ),
    "text-escapes": ("raise ValueError('\\x1b]0;owned\\x07\\x1b[2J first\\nsecond')", "ValueError: .*first"),
    "name-escapes": ("raise type('Odd\\x1b[31m', (Exception,), {})('x')", "Odd"),
    "cause-exits": (
        """
                class Odd(Exception):
                    def __str__(self):
                        raise SystemExit(0)
                raise ValueError('top') from Odd()
                """,
        "ValueError: top",
    ),
    "recursion": (
        """
                def again():
                    again()
                again()
                """,
        "RecursionError",
    ),
    "replaces-itself": (
        """
                import sys
                sys.modules[__name__] = None
                raise ValueError('gone')
                """,
        "ValueError: gone",
    ),
    "removes-itself": (
        """
                import sys
                del sys.modules[__name__]
                raise ValueError('gone')
                """,
        "ValueError: gone",
    ),
    "api-is-evil": (
        """
                class Odd:
                    def __eq__(self, other):
                        raise SystemExit(0)
                    __ne__ = __eq__
                FIELDBENCH_API = Odd()
                """,
        "SystemExit",
    ),
    "hook-exits": ("{hook}    raise SystemExit(0)", "fieldbench_register_methods: SystemExit"),
    "hook-interrupts": ("{hook}    raise KeyboardInterrupt", "fieldbench_register_methods: KeyboardInterrupt"),
    "hook-raises-without-text": ("{hook}    raise ValueError", "fieldbench_register_methods: ValueError"),
    "hook-returns-generator": ("{hook}    yield None", "should return a list of classes"),
    "hook-returns-text": ("{hook}    return 'classes'", "should return a list of classes"),
    "hook-returns-nameless": (
        "{hook}    return [type('Mine', (fieldbench.Method,), dict(__module__=__name__))]",
        "needs a name",
    ),
    "hook-returns-what-cannot-be-shown": (
        """
                class Odd:
                    def __repr__(self):
                        raise SystemExit(0)
                {hook}    return [Odd()]
                """,
        "SystemExit|is not a class derived",
    ),
    "hook-returns-list-that-exits": (
        """
                class Odd(list):
                    def __iter__(self):
                        raise SystemExit(0)
                {hook}    return Odd()
                """,
        "SystemExit",
    ),
    "hook-returns-class-that-exits": (
        """
                class Meta(type(fieldbench.Method)):
                    def __getattribute__(cls, name):
                        raise SystemExit(0)
                class Odd(fieldbench.Method, metaclass=Meta):
                    pass
                {hook}    return [Odd]
                """,
        "SystemExit|PydanticUserError|metaclass",
    ),
    "hook-returns-name-that-escapes": (
        r"""
                class Odd(fieldbench.Method):
                    'x'
                    name = '\x1b[31m'
                    def complete(self, *_, **__): pass
                {hook}    return [Odd]
                """,
        "needs a name",
    ),
    "hook-is-a-class": (
        """
                @fieldbench.hookimpl
                class fieldbench_register_methods:
                    pass
                """,
        "fieldbench_register_methods is not marked|no hook",
    ),
    "class-body-exits": (
        """
                class Mine(fieldbench.Method):
                    name = 'mine'
                    raise SystemExit(0)
                """,
        "SystemExit",
    ),
    "class-keyword": (
        """
                class Mine(fieldbench.Method, frozen=1 / 0):
                    name = 'mine'
                """,
        "ZeroDivisionError",
    ),
    "metaclass-exits": (
        """
                class Meta(type(fieldbench.Method)):
                    def __new__(cls, *_, **__):
                        raise SystemExit(0)
                class Mine(fieldbench.Method, metaclass=Meta):
                    name = 'mine'
                """,
        "SystemExit",
    ),
    "name-raises": (
        """
                class Odd:
                    def __get__(self, *_):
                        raise SystemExit(0)
                class Mine(fieldbench.Method):
                    'x'
                    def complete(self, *_, **__): pass
                type.__setattr__(Mine, 'name', Odd())
                {hook}    return [Mine]
                """,
        "SystemExit",
    ),
    "no-text": ("\x00", "SyntaxError|ValueError"),
    "deeply-nested": ("x = " + "(" * 500 + ")" * 500, "SyntaxError|MemoryError|RecursionError|s_push"),
}

#: Lines of a module that works, as far as the process goes which reads the request.
ODD = {
    "chdir": "import os\nos.chdir(os.path.join(os.path.dirname(__file__), os.pardir))",
    "umask": "import os\nos.umask(0o777)",
    "stdout": "import sys\nsys.stdout = None",
    "default-rng": "import numpy as np\nnp.random.default_rng = lambda *_: np.random.Generator(np.random.PCG64(0))",
    "metric": "import fieldbench.metric as m\nm.RMSE.score = lambda *_: 0.0",
    "numpy-errors": "import numpy as np\nnp.seterr(all='raise')",
    "warnings": "import warnings\nwarnings.simplefilter('error')",
    "environment": "import os\nos.environ.update(OMP_NUM_THREADS='99', CUDA_VISIBLE_DEVICES='x')",
    "path": """
    import sys
    from pathlib import Path
    here = Path(__file__).with_suffix('')
    for package in ('fieldbench_methods', 'fieldbench_datasets', 'random', 'json'):
        (here / package).mkdir(parents=True, exist_ok=True)
        (here / package / '__init__.py').write_text('raise SystemExit(0)')
    sys.path.insert(0, str(here))
    """,
    "signals": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "rounding": "import ctypes\nctypes.CDLL('libm.so.6').fesetround(0x800)",
    "collector": "import gc\ngc.disable()",
    "thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(20,), daemon=True).start()",
    "prints": "print('\\x1b[2J')",
    "alarm": "import signal\nsignal.alarm(1)",
    "timer": """
    import signal, sys
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(0))
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    """,
    "descriptors": "import os\nos.close(1)\nos.close(2)",
    "files": """
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    """,
    "depth": "import sys\nsys.setrecursionlimit(150)",
}
