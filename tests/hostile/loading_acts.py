"""What plugins do while they are loaded: in the process that reads the request, and in those that come later."""

from __future__ import annotations

from tests.hostile.commands import Group
from tests.hostile.plugins import EITHER, FAILS, PASSES, acts

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
                "class Odd(Exception):\n    def __str__(self):\n        sys.exit(0)\nraise Odd",
            ),
            "import-segfault": (FAILS, "segfault()"),
            "import-closes-everything": (FAILS, "os.closerange(3, 256)"),
            "import-forgets-its-hook": (FAILS, "fieldbench.hookimpl = lambda function: function"),
            "import-writes-to-descriptors": (
                EITHER,
                """
                for to in range(3, 20):
                    try:
                        os.set_blocking(to, False)
                        os.write(to, bytes(range(256)))
                    except OSError:
                        pass
                """,
            ),
            "import-forks": (EITHER, "os.fork()"),
            "import-daemon": (PASSES, "daemon()"),
            "import-patches-numpy": (PASSES, "np.sqrt = np.abs = np.isfinite = lambda *_, **__: np.float64(0)"),
            "import-patches-metric": (PASSES, "import fieldbench.metric as m\nm.RMSE.score = lambda *_: 0.0"),
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
        Group("later-imports-beside", tuple(LATER_IMPORTS), ("--jobs", "2")),
        Group("slow-imports", tuple(SLOW_IMPORTS), ("--jobs", "2"), trials=1),
    )
}

#: Lines of a module that cannot be a plugin, and a pattern of the one line that is said about each.
BROKEN = {
    "exits": ("import sys\nsys.exit(0)", "SystemExit"),
    "exits-with-none": ("import sys\nsys.exit()", "SystemExit"),
    "exits-with-text": ("import sys\nsys.exit('all is well')", "SystemExit: all is well"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "raises-far-up": ("class Odd(BaseException): pass\nraise Odd('far up')", "Odd: far up"),
    "raises-without-text": ("raise ValueError", "ValueError"),
    "raises-group": ("raise BaseExceptionGroup('many', [KeyboardInterrupt()])", "BaseExceptionGroup: many"),
    "text-exits": ("class Odd(Exception):\n    def __str__(self):\n        raise SystemExit(0)\nraise Odd", "Odd"),
    "text-interrupts": (
        "class Odd(Exception):\n    def __str__(self):\n        raise KeyboardInterrupt\nraise Odd",
        "Odd",
    ),
    "text-is-no-text": ("class Odd(Exception):\n    def __str__(self):\n        return 5\nraise Odd", "Odd"),
    "text-escapes": ("raise ValueError('\\x1b]0;owned\\x07\\x1b[2J first\\nsecond')", "ValueError: .*first"),
    "name-escapes": ("raise type('Odd\\x1b[31m', (Exception,), {})('x')", "Odd"),
    "cause-exits": (
        "class Odd(Exception):\n    def __str__(self):\n        raise SystemExit(0)\nraise ValueError('top') from Odd()",
        "ValueError: top",
    ),
    "recursion": ("def again():\n    again()\nagain()", "RecursionError"),
    "replaces-itself": ("import sys\nsys.modules[__name__] = None\nraise ValueError('gone')", "ValueError: gone"),
    "removes-itself": ("import sys\ndel sys.modules[__name__]\nraise ValueError('gone')", "ValueError: gone"),
    "api-is-evil": (
        "class Odd:\n    def __eq__(self, other):\n        raise SystemExit(0)\n    __ne__ = __eq__\nFIELDBENCH_API = Odd()",
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
        "class Odd:\n    def __repr__(self):\n        raise SystemExit(0)\n{hook}    return [Odd()]",
        "SystemExit|is no class derived",
    ),
    "hook-returns-list-that-exits": (
        "class Odd(list):\n    def __iter__(self):\n        raise SystemExit(0)\n{hook}    return Odd()",
        "SystemExit",
    ),
    "hook-returns-class-that-exits": (
        "class Meta(type(fieldbench.Method)):\n    def __getattribute__(cls, name):\n        raise SystemExit(0)\n"
        "class Odd(fieldbench.Method, metaclass=Meta):\n    pass\n{hook}    return [Odd]",
        "SystemExit|PydanticUserError|metaclass",
    ),
    "hook-returns-name-that-escapes": (
        "class Odd(fieldbench.Method):\n    'x'\n    name = '\\x1b[31m'\n    def complete(self, *_, **__): pass\n{hook}    return [Odd]",
        "needs a name",
    ),
    "hook-is-a-class": (
        "@fieldbench.hookimpl\nclass fieldbench_register_methods:\n    pass",
        "fieldbench_register_methods is not marked|no hook",
    ),
    "hook-signature-exits": (
        "def signature(*_):\n    raise SystemExit(0)\n{hook}    return []\nfieldbench_register_methods.__signature__ = 5",
        "TypeError",
    ),
    "class-body-exits": ("class Mine(fieldbench.Method):\n    name = 'mine'\n    raise SystemExit(0)", "SystemExit"),
    "class-keyword": ("class Mine(fieldbench.Method, frozen=1 / 0):\n    name = 'mine'", "ZeroDivisionError"),
    "metaclass-exits": (
        "class Meta(type(fieldbench.Method)):\n    def __new__(cls, *_, **__):\n        raise SystemExit(0)\n"
        "class Mine(fieldbench.Method, metaclass=Meta):\n    name = 'mine'",
        "SystemExit",
    ),
    "name-raises": (
        "class Odd:\n    def __get__(self, *_):\n        raise SystemExit(0)\nclass Mine(fieldbench.Method):\n    'x'\n"
        "    def complete(self, *_, **__): pass\ntype.__setattr__(Mine, 'name', Odd())\n{hook}    return [Mine]",
        "SystemExit",
    ),
    "no-text": ("\x00", "SyntaxError|ValueError"),
    "deeply-nested": ("x = " + "(" * 500 + ")" * 500, "SyntaxError|MemoryError|RecursionError|s_push"),
}

#: Lines of a module that works, as far as the process goes which reads the request.
ODD = {
    "chdir": "import os\nos.chdir('/')",
    "umask": "import os\nos.umask(0o777)",
    "stdout": "import sys\nsys.stdout = None",
    "default-rng": "import numpy as np\nnp.random.default_rng = lambda *_: np.random.Generator(np.random.PCG64(0))",
    "metric": "import fieldbench.metric as m\nm.RMSE.score = lambda *_: 0.0",
    "numpy-errors": "import numpy as np\nnp.seterr(all='raise')",
    "warnings": "import warnings\nwarnings.simplefilter('error')",
    "environment": "import os\nos.environ.update(OMP_NUM_THREADS='99', CUDA_VISIBLE_DEVICES='x')",
    "signals": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "rounding": "import ctypes\nctypes.CDLL('libm.so.6').fesetround(0x800)",
    "collector": "import gc\ngc.disable()",
    "thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(20,), daemon=True).start()",
    "prints": "print('\\x1b[2J')",
}
