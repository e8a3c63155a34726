"""What methods do to the harness, by the function that does it."""

from __future__ import annotations

import hashlib

from tests.hostile.commands import Group
from tests.hostile.plugins import EITHER, FAILS, PASSES, TIMES_OUT, acts

ENDINGS = [
    *acts(
        "complete",
        {
            "exit-zero": (FAILS, "sys.exit(0)"),
            "exit-none": (FAILS, "sys.exit()"),
            "exit-text": (FAILS, "sys.exit('all is well')", "all is well|exited with code"),
            "os-exit-zero": (FAILS, "os._exit(0)", "0"),
            "interrupt": (FAILS, "raise KeyboardInterrupt", "Interrupt|SIGINT|exited with code"),
            "base-exception": (
                FAILS,
                "class Odd(BaseException): pass\nraise Odd('far up')",
                "Odd: far up|exited with code",
            ),
            "generator-exit": (FAILS, "raise GeneratorExit", "GeneratorExit|exited with code"),
            "stop-iteration": (FAILS, "next(iter(()))", "StopIteration"),
            "without-text": (FAILS, "raise ValueError", "ValueError"),
            "text-raises": (
                FAILS,
                "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError('no words')\nraise Odd",
                "Odd",
            ),
            "text-exits": (
                FAILS,
                "class Odd(Exception):\n    def __str__(self):\n        sys.exit(0)\nraise Odd",
            ),
            "text-loops": (
                EITHER,
                "class Odd(Exception):\n    def __str__(self):\n        return '\\n' * 10**6\nraise Odd",
            ),
            "name-escapes": (FAILS, "raise type('Odd\\x1b[31m\\nname', (Exception,), {})('x')"),
            "text-escapes": (FAILS, "raise ValueError('\\x1b]0;owned\\x07\\x1b[2J first\\nsecond')", "first"),
            "text-half-surrogate": (FAILS, "raise ValueError('\\ud800 half')", "half"),
            "text-huge": (FAILS, "raise ValueError('x' * 10**7)", "ValueError: x"),
            "exception-group": (FAILS, "raise ExceptionGroup('many', [ValueError(n) for n in range(9)])", "many"),
            "recursion": (FAILS, "def again():\n    again()\nagain()", "RecursionError"),
            "deep-recursion": (
                FAILS,
                "sys.setrecursionlimit(10**9)\ndef again(x):\n    return [*map(again, [x])]\nagain(1)",
            ),
            "memory-error": (FAILS, "np.ones(2**50)", "allocate"),
            "segfault": (FAILS, "segfault()", "SIGSEGV"),
            "abort": (FAILS, "os.abort()", "SIGABRT"),
            "kills-itself": (FAILS, "os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
            "kills-its-group": (FAILS, "os.killpg(0, signal.SIGKILL)", "SIGKILL"),
            "terminates-its-group": (FAILS, "os.killpg(0, signal.SIGTERM)\ntime.sleep(1)"),
            "interrupts-its-group": (EITHER, "os.killpg(0, signal.SIGINT)\ntime.sleep(0.2)"),
            "traces-and-exits": (EITHER, "sys.settrace(lambda *_: sys.exit(0))"),
            "profiles-and-exits": (EITHER, "sys.setprofile(lambda *_: os._exit(0))"),
            "becomes-true": (FAILS, "os.execv('/bin/true', ['true'])"),
            "reads-stdin": (FAILS, "input()", "EOF"),
            "deletes-its-file": (EITHER, "Path(__file__).unlink(missing_ok=True)"),
            "spoils-its-file": (EITHER, "Path(__file__).write_text('raise SystemExit(0)')"),
        },
    ),
]

PROCESSES = [
    *acts(
        "complete",
        {
            "alarm-later": (PASSES, "signal.setitimer(signal.ITIMER_REAL, 0.005)"),
            "forks-and-returns-twice": (EITHER, "os.fork()"),
            "forks-and-lets-the-child-answer": (EITHER, "if os.fork():\n    os._exit(0)"),
            "forks-and-raises-in-the-child": (PASSES, "if os.fork() == 0:\n    raise ValueError('the child')"),
            "daemon": (PASSES, "daemon()"),
            "program-left-behind": (PASSES, "subprocess.Popen(['sleep', '20'], close_fds=False)"),
            "many-children": (
                PASSES,
                "for _ in range(20):\n    if os.fork() == 0:\n        time.sleep(20)\n        os._exit(0)",
            ),
            "thread-goes-on": (PASSES, "threading.Thread(target=loop, daemon=True).start()"),
            "thread-blocks-the-end": (PASSES, "threading.Thread(target=time.sleep, args=(60,)).start()"),
            "thread-exits-later": (
                EITHER,
                "threading.Timer(0.01, os._exit, (0,)).start()",
            ),
            "hangs-at-exit": (PASSES, "import atexit\natexit.register(loop)"),
            "exits-when-collected": (
                EITHER,
                "class Odd(np.ndarray):\n    def __del__(self):\n        os._exit(0)\n"
                "return flat(observation).view(Odd)",
            ),
            "closes-everything": (FAILS, "os.closerange(0, 256)"),
            "closes-standard-streams": (EITHER, "os.closerange(0, 3)"),
            "nulls-over-descriptors": (
                FAILS,
                "hole = os.open('/dev/null', os.O_RDWR)\nfor to in range(3, 20):\n    os.dup2(hole, to)",
            ),
            "stdout-over-descriptors": (FAILS, "for to in range(3, 20):\n    os.dup2(1, to)"),
            "writes-to-descriptors": (
                EITHER,
                "for to in range(3, 20):\n    try:\n        os.set_blocking(to, False)\n        os.write(to, b'\\x00\\x01nonsense' * 99)\n"
                "    except OSError:\n        pass",
            ),
            "writes-huge-lengths": (
                EITHER,
                "for to in range(3, 20):\n    try:\n        os.set_blocking(to, False)\n        os.write(to, b'\\xff' * 8)\n"
                "    except OSError:\n        pass",
            ),
            "writes-pickles": (
                EITHER,
                "import multiprocessing.connection as mc, pickle\nfor to in range(3, 20):\n    try:\n"
                "        os.fstat(to)\n        link = mc.Connection(os.dup(to))\n        link.send(Evil())\n"
                "    except (OSError, ValueError):\n        pass",
            ),
            "reads-descriptors": (
                EITHER,
                "for to in range(3, 20):\n    try:\n        os.set_blocking(to, False)\n        os.read(to, 10**6)\n"
                "    except OSError:\n        pass",
            ),
            "truncates-open-files": (
                PASSES,
                "for to in range(3, 64):\n    try:\n        os.ftruncate(to, 0)\n    except OSError:\n        pass",
            ),
            "prints-much": (EITHER, "for _ in range(100):\n    os.write(1, b'x' * 10**6)"),
            "prints-escapes": (
                PASSES,
                "print('\\x1b[2J\\x1b]0;owned\\x07', flush=True)\nprint('\\x1b[31m', file=sys.stderr)",
            ),
            "prints-no-utf8": (PASSES, "os.write(1, bytes(range(256)))"),
            "without-stdout": (PASSES, "sys.stdout = sys.stderr = sys.__stdout__ = None"),
            "memory-hog": (
                FAILS,
                "hoard = []\nwhile time.monotonic() < THE_END:\n    hoard.append(np.ones(2**20))",
                "1.0 GiB|1024 MiB|[Mm]emory",
            ),
            "own-session": (PASSES, "os.setsid() if os.getpgrp() != os.getpid() else os.getsid(0)"),
            "changes-folder": (PASSES, "os.chdir('/')"),
            "umask": (PASSES, "os.umask(0o777)"),
            "freezes-the-collector": (PASSES, "gc.freeze()\ngc.disable()"),
            "small-stack": (EITHER, "sys.setrecursionlimit(40)"),
            "no-more-files": (PASSES, "resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))"),
            "no-more-bytes": (EITHER, "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"),
            "no-more-memory": (EITHER, "resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))"),
            "slows-itself": (PASSES, "os.nice(19)\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"),
        },
    ),
]

PATCHES = [
    *acts(
        "complete",
        {
            "patches-default-rng": (
                PASSES,
                "np.random.default_rng = lambda *_: np.random.Generator(np.random.PCG64(0))",
            ),
            "patches-generator": (EITHER, "np.random.Generator = np.random.PCG64 = None"),
            "seeds-globally": (PASSES, "import random\nrandom.seed(0)\nnp.random.seed(0)"),
            "patches-seterr": (PASSES, "np.seterr(all='raise')"),
            "patches-error-state": (EITHER, "np.errstate = np.seterr = None"),
            "patches-warnings": (PASSES, "warnings.simplefilter('error')"),
            "patches-mean": (
                EITHER,
                "answer = flat(observation)\nnp.mean = lambda *_, **__: np.float64(0)\nreturn answer",
            ),
            "patches-sqrt": (PASSES, "np.sqrt = np.abs = np.max = np.sum = lambda *_, **__: np.float64(0)"),
            "patches-array": (
                EITHER,
                "answer = flat(observation)\nnp.asarray = np.array = np.zeros_like\nreturn answer",
            ),
            "patches-save": (EITHER, "np.save = np.load = lambda *_, **__: None"),
            "patches-isfinite": (PASSES, "np.isfinite = lambda value: np.ones(np.shape(value), bool)"),
            "patches-buffer-size": (PASSES, "np.setbufsize(16)"),
            "patches-rounding": (
                PASSES,
                "answer = flat(observation)\nctypes.CDLL('libm.so.6').fesetround(0x800)\nreturn answer",
            ),
            "patches-torch-dtype": (
                PASSES,
                "import torch\ntorch.set_default_dtype(torch.float64)\ntorch.manual_seed(0)",
            ),
            "patches-scipy": (
                PASSES,
                "import scipy.spatial, scipy.interpolate\nscipy.spatial.cKDTree = scipy.spatial.KDTree = None\n"
                "scipy.interpolate.NearestNDInterpolator.__call__ = lambda self, *_: 0 * self.values",
            ),
            "patches-metric": (PASSES, "import fieldbench.metric as m\nm.RMSE.score = lambda *_: 0.0"),
            "patches-all-scores": (
                PASSES,
                "import fieldbench.metric as m\nm.score_all = lambda *_: ({'rmse': 0.0}, {})\n"
                "for name in ('trial', 'judging'):\n    vars(sys.modules.get(f'fieldbench.{name}') or m)['score_all'] = m.score_all",
            ),
            "patches-draws": (
                PASSES,
                "for name in ('trial', 'judging'):\n    module = sys.modules.get(f'fieldbench.{name}')\n"
                "    for function in ('draw', 'stream', 'method_seed', 'run'):\n        if hasattr(module, function):\n"
                "            setattr(module, function, lambda *_, **__: None)",
            ),
            "patches-selection": (
                PASSES,
                "import fieldbench.selection as s\ns.Recorder.choose = lambda self, final: (0 * final, {})",
            ),
            "patches-registry": (
                PASSES,
                "import fieldbench.registry as r\nr.Registry.metrics = lambda *_: []\nr.Registry.method = None",
            ),
            "patches-observation": (
                PASSES,
                "from fieldbench.field import Observation\nObservation.observed = property(lambda self: self.values[:1])\n",
            ),
            "patches-rivals": (
                PASSES,
                "for name, module in list(sys.modules.items()):\n    for value in list(vars(module).values()):\n"
                "        if isinstance(value, type) and getattr(value, 'name', '') in ('honest', 'nearest'):\n"
                "            value.complete = lambda self, observation, **_: 0 * flat(observation)",
            ),
            "patches-every-module": (
                EITHER,
                "answer = flat(observation)\nfor name, module in list(sys.modules.items()):\n"
                "    if name.startswith('fieldbench.'):\n        vars(module).clear()\nreturn answer",
            ),
            "empties-modules": (EITHER, "answer = flat(observation)\nsys.modules.clear()\nreturn answer"),
            "empties-environment": (PASSES, "os.environ.clear()"),
            "sets-threads": (PASSES, "os.environ['OMP_NUM_THREADS'] = os.environ['CUDA_VISIBLE_DEVICES'] = 'nonsense'"),
            "patches-clock": (PASSES, "time.perf_counter = time.monotonic = lambda: 0.0"),
            "patches-clock-to-look-fast": (
                PASSES,
                "time.sleep(0.3)\ntime.perf_counter = time.monotonic = time.time = lambda: 0.0",
            ),
            "patches-sleep": (PASSES, "time.sleep = lambda *_: None"),
            "patches-threads": (EITHER, "threading.Thread.start = threading.Thread.join = lambda *_, **__: None"),
            "patches-locks": (EITHER, "threading.Lock = threading.RLock = threading.Event = None"),
            "patches-pickle": (EITHER, "import pickle\npickle.loads = pickle.dumps = lambda *_, **__: None"),
            "patches-json": (
                EITHER,
                "import json\njson.loads = json.dumps = lambda *_, **__: '{}'\njson.JSONEncoder.encode = None",
            ),
            "patches-sockets": (EITHER, "socket.socket.send = socket.socket.sendall = socket.socket.recv = None"),
            "patches-fork": (PASSES, "os.fork = os.kill = os.waitpid = lambda *_: 0"),
            "patches-builtins": (
                EITHER,
                "import builtins\nanswer = flat(observation)\nbuiltins.len = builtins.float = builtins.isinstance = None\nreturn answer",
            ),
            "patches-imports": (EITHER, "sys.path.clear()\nsys.meta_path.clear()\nsys.path_hooks.clear()"),
            "patches-exception-hook": (PASSES, "sys.excepthook = threading.excepthook = lambda *_: os._exit(0)"),
            "patches-signals": (
                PASSES,
                "for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):\n    signal.signal(number, signal.SIG_IGN)",
            ),
            "patches-base-class": (
                PASSES,
                "fieldbench.Method.complete = fieldbench.Method.applicable = None\ntype(self).batch_size = None",
            ),
        },
    ),
]

HANGS = [
    *acts(
        "complete",
        {
            "loops": (TIMES_OUT, "loop()"),
            "sleeps-deaf": (TIMES_OUT, "sleep_deaf()"),
            "stops-itself": (TIMES_OUT, "os.kill(os.getpid(), signal.SIGSTOP)"),
            "stops-its-group": (TIMES_OUT, "os.killpg(0, signal.SIGSTOP)"),
            "deadlocks": (TIMES_OUT, "lock = threading.Lock()\nlock.acquire()\nlock.acquire()"),
            "keeps-the-interpreter": (TIMES_OUT, "re.match(r'(a*)*b', 'a' * 60)"),
            "sleeps-in-a-session-of-its-own": (TIMES_OUT, "if os.fork():\n    os.wait()\nos.setsid()\nsleep_deaf()"),
            "becomes-a-sleeper": (FAILS, "os.execv('/bin/sleep', ['sleep', '100'])"),
            "closes-everything-and-sleeps": (FAILS, "os.closerange(0, 256)\nsleep_deaf()"),
            "exits-while-a-child-holds-on": (FAILS, "daemon()\nos._exit(3)"),
            "hangs-behind-a-daemon": (TIMES_OUT, "daemon()\nsleep_deaf()"),
            "writes-to-descriptors-and-sleeps": (
                FAILS,
                "for to in range(3, 20):\n    try:\n        os.set_blocking(to, False)\n        os.write(to, b'\\x00\\x00\\x00\\x09abc')\n"
                "    except OSError:\n        pass\nsleep_deaf()",
            ),
            "floods-descriptors": (
                FAILS,
                "for to in range(3, 20):\n    try:\n        os.set_blocking(to, False)\n    except OSError:\n        pass\n"
                "while time.monotonic() < THE_END:\n    for to in range(3, 20):\n        try:\n            os.write(to, b'{}' * 999)\n"
                "        except OSError:\n            pass",
            ),
            "prints-for-ever": (TIMES_OUT, "while time.monotonic() < THE_END:\n    os.write(1, b'x' * 10**5)"),
            "forks-for-ever": (
                FAILS,
                "resource.setrlimit(resource.RLIMIT_NPROC, resource.getrlimit(resource.RLIMIT_NPROC))\n"
                "for _ in range(30):\n    if os.fork() == 0:\n        sleep_deaf()\nsleep_deaf()",
            ),
            "interrupt-swallowed": (
                TIMES_OUT,
                "while time.monotonic() < THE_END:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass",
            ),
            "reports-for-ever": (
                FAILS,
                "step = 0\nwhile time.monotonic() < THE_END:\n    step += 1\n    report(step, flat(observation))",
            ),
            "asks-for-ever": (FAILS, "while time.monotonic() < THE_END:\n    report.due(1)\n    report.threads"),
            "answers-with-a-generator-for-ever": (FAILS, "return (0.0 for _ in iter(int, 1))"),
            "answers-with-a-slow-array": (
                FAILS,
                "class Odd:\n    def __array__(self, *_, **__):\n        loop()\nreturn Odd()",
            ),
        },
    ),
    *acts(
        "complete_batch",
        {"batch-loops": (EITHER, "loop()")},
        extra="def batch_size(self, shape, device):\n    return 4",
    ),
]

QUESTIONS = [
    *acts(
        "applicable",
        {
            "applicable-exits": (FAILS, "sys.exit(0)"),
            "applicable-ends": (FAILS, "os._exit(0)"),
            "applicable-interrupts": (FAILS, "raise KeyboardInterrupt"),
            "applicable-raises": (FAILS, "raise ValueError"),
            "applicable-segfault": (FAILS, "segfault()"),
            "applicable-number": (EITHER, "return 42"),
            "applicable-escapes": (EITHER, "return '\\x1b[31mno\\nnot at all'"),
            "applicable-has-no-truth-value": (EITHER, "return np.zeros(2)"),
            "applicable-evil": (EITHER, "return Evil()"),
            "applicable-mutates": (
                PASSES,
                "object.__setattr__(observation, 'mask', np.ones(observation.shape, bool))",
            ),
            "applicable-patches": (PASSES, "import fieldbench.metric as m\nm.RMSE.score = lambda *_: 0.0"),
        },
    ),
    *acts(
        "check_shape",
        {
            "check-shape-exits": (FAILS, "sys.exit(0)"),
            "check-shape-ends": (FAILS, "os._exit(0)"),
            "check-shape-interrupts": (FAILS, "raise KeyboardInterrupt"),
            "check-shape-raises": (FAILS, "raise TypeError"),
            "check-shape-segfault": (FAILS, "segfault()"),
            "check-shape-returns": (PASSES, "return Evil()"),
        },
    ),
    *acts(
        "batch_size",
        {
            "batch-size-text": (EITHER, "return 'two'"),
            "batch-size-zero": (EITHER, "return 0"),
            "batch-size-negative": (EITHER, "return -(10**30)"),
            "batch-size-huge": (EITHER, "return 10**5000"),
            "batch-size-nan": (EITHER, "return float('nan')"),
            "batch-size-none": (EITHER, "return None"),
            "batch-size-array": (EITHER, "return np.arange(3)"),
            "batch-size-evil": (EITHER, "return Evil()"),
            "batch-size-exits": (EITHER, "sys.exit(0)"),
            "batch-size-ends": (EITHER, "os._exit(0)"),
            "batch-size-interrupts": (EITHER, "raise KeyboardInterrupt"),
            "batch-size-segfault": (EITHER, "segfault()"),
        },
    ),
]

IDENTITIES = [
    *acts(
        "fingerprint",
        {
            "fingerprint-exits": (FAILS, "sys.exit(0)"),
            "fingerprint-ends": (FAILS, "os._exit(0)"),
            "fingerprint-interrupts": (FAILS, "raise KeyboardInterrupt"),
            "fingerprint-raises": (FAILS, "raise OSError(2, 'no weights')", "no weights"),
            "fingerprint-segfault": (FAILS, "segfault()"),
            "fingerprint-none": (EITHER, "return None"),
            "fingerprint-bytes": (EITHER, "return b'\\x00' * 10"),
            "fingerprint-evil": (EITHER, "return Evil()"),
            "fingerprint-never-the-same": (EITHER, "return os.urandom(8).hex()"),
            "fingerprint-patches": (PASSES, "np.random.default_rng = None"),
        },
    ),
]

SLOW_QUESTIONS = [
    *acts("applicable", {"applicable-loops": (FAILS, "loop()")}),
    *acts("check_shape", {"check-shape-sleeps-deaf": (FAILS, "sleep_deaf()")}),
    *acts("batch_size", {"batch-size-stops-itself": (EITHER, "os.kill(os.getpid(), signal.SIGSTOP)")}),
    *acts("fingerprint", {"fingerprint-loops": (FAILS, "loop()")}),
]

BATCHES = [
    *acts(
        "complete_batch",
        {
            "batch-none": (PASSES, "return None"),
            "batch-too-few": (PASSES, "return [flat(observations[0])]"),
            "batch-too-many": (PASSES, "return [flat(observations[0])] * 99"),
            "batch-generator": (PASSES, "return (flat(observation) for observation in observations)"),
            "batch-raises": (PASSES, "raise ValueError"),
            "batch-exits": (PASSES, "sys.exit(0)"),
            "batch-ends": (PASSES, "os._exit(0)"),
            "batch-segfault": (PASSES, "segfault()"),
            "batch-one-is-wrong": (PASSES, "return [np.nan, *[flat(one) for one in observations[1:]]]"),
            "batch-dictionary": (PASSES, "return {n: flat(one) for n, one in enumerate(observations)}"),
            "batch-empties-its-arguments": (PASSES, "observations.clear()\nseeds.clear()\nreports.clear()"),
        },
        extra="def batch_size(self, shape, device):\n    return 4",
    ),
]

RETURNS = [
    *acts(
        "complete",
        {
            "none": (FAILS, "return None"),
            "wrong-shape": (FAILS, "return flat(observation)[:-1]", "shape"),
            "transposed-rank": (FAILS, "return flat(observation).ravel()", "shape"),
            "scalar": (FAILS, "return 0.0", "shape"),
            "nan": (FAILS, "return observation.values", "NaN|finite"),
            "infinite": (FAILS, "return flat(observation) * np.inf", "infinite|finite"),
            "complex": (FAILS, "return flat(observation) + 0j", "complex"),
            "objects": (
                FAILS,
                "return flat(observation).astype(object) + Evil() if 0 else np.full(observation.shape, Evil())",
            ),
            "object-numbers": (EITHER, "return flat(observation).astype(object)"),
            "texts": (FAILS, "return flat(observation).astype(str)"),
            "bytes": (FAILS, "return flat(observation).astype('S')"),
            "dates": (FAILS, "return np.zeros(observation.shape, 'datetime64[s]')"),
            "durations": (FAILS, "return np.zeros(observation.shape, 'timedelta64[s]')"),
            "records": (FAILS, "return np.zeros(observation.shape, [('a', float), ('b', int)])"),
            "raw-memory": (FAILS, "return np.zeros(observation.shape, 'V8')"),
            "all-masked": (FAILS, "return np.ma.masked_all(observation.shape)"),
            "partly-masked": (FAILS, "return np.ma.masked_array(flat(observation), observation.mask)"),
            "masked-nowhere": (PASSES, "return np.ma.masked_array(flat(observation), False)"),
            "generator": (FAILS, "return (row for row in flat(observation))"),
            "ragged": (FAILS, "return [[1.0], [1.0, 2.0]]"),
            "dictionary": (FAILS, "return {'mean': flat(observation)}"),
            "class": (FAILS, "return np.ndarray"),
            "exception": (FAILS, "return ValueError('not raised')"),
            "a-pair": (FAILS, "return flat(observation), flat(observation)"),
            "huge-claim": (FAILS, "return np.broadcast_to(0.0, (2**21, 2**21))"),
            "many-axes": (FAILS, "return np.zeros((1,) * 32)", "shape"),
            "empty": (FAILS, "return np.zeros((0, 8))", "shape"),
            "pickle-bomb": (FAILS, "return Evil()"),
            "evil-array-function": (
                FAILS,
                "class Odd:\n    def __array__(self, *_, **__):\n        sys.exit(0)\nreturn Odd()",
            ),
            "endless-array-function": (
                FAILS,
                "class Odd:\n    def __array__(self, *_, **__):\n        return self\nreturn Odd()",
            ),
            "evil-detach": (FAILS, "class Odd:\n    def detach(self):\n        os._exit(0)\nreturn Odd()"),
            "everything-attribute": (FAILS, "from unittest.mock import MagicMock\nreturn MagicMock()"),
            "bad-interface": (
                FAILS,
                "class Odd:\n    __array_interface__ = {'shape': (8, 8), 'typestr': '<f8', 'data': (8, True), 'version': 3}\nreturn Odd()",
            ),
            "subclass-with-own-rules": (
                EITHER,
                "class Odd(np.ndarray):\n    def __array_ufunc__(self, *_, **__):\n        return np.zeros(self.shape)\n"
                "    def __array_function__(self, *_, **__):\n        return np.zeros(self.shape)\n"
                "    def __reduce__(self):\n        return os._exit, (77,)\nreturn flat(observation).view(Odd)",
            ),
            "torch-meta": (FAILS, "import torch\nreturn torch.zeros(observation.shape, device='meta')"),
            "torch-with-gradient": (PASSES, "import torch\nreturn torch.tensor(flat(observation), requires_grad=True)"),
            "read-only": (PASSES, "return np.broadcast_to(observation.observed.mean(), observation.shape)"),
            "backwards": (PASSES, "return np.asfortranarray(flat(observation)[::-1])"),
            "other-byte-order": (PASSES, "return flat(observation).astype('>f8')"),
            "overlapping": (
                PASSES,
                "return np.lib.stride_tricks.as_strided(np.full(15, observation.observed.mean()), observation.shape, (8, 8))",
            ),
            "extended-precision": (EITHER, "return flat(observation).astype(np.longdouble)"),
            "beyond-float": (FAILS, "return [[10**400] * 8] * 8"),
            "truncated-file": (
                FAILS,
                "file = Path(__file__).with_suffix('.bin')\nfile.write_bytes(bytes(2**16))\n"
                "array = np.memmap(file, float, 'r', 0, observation.shape)\nos.truncate(file, 0)\nreturn array",
            ),
            "changes-afterwards": (
                EITHER,
                "answer = flat(observation)\ndef spoil():\n    while time.monotonic() < THE_END:\n        answer[:] = np.nan\n"
                "threading.Thread(target=spoil, daemon=True).start()\nreturn answer",
            ),
            "zeroes-the-observation": (
                PASSES,
                "answer = flat(observation)\nobservation.values.setflags(write=True)\nobservation.values[:] = 0.0\nreturn answer",
            ),
            "widens-the-mask": (
                PASSES,
                "answer = flat(observation)\nobservation.mask.setflags(write=True)\nobservation.mask[:] = True\nreturn answer",
            ),
            "moves-the-axes": (
                PASSES,
                "for axis in observation.axes:\n    axis.coordinates.setflags(write=True)\n    axis.coordinates[:] = 0.0",
            ),
            "replaces-the-observation": (
                PASSES,
                "answer = flat(observation)\nfor name in ('values', 'mask', 'valid', 'axes'):\n"
                "    object.__setattr__(observation, name, None)\nreturn answer",
            ),
        },
    ),
]

REPORTS = [
    *acts(
        "complete",
        {
            "report-wrong-shape": (FAILS, "report(0, flat(observation)[:-1])", "shape"),
            "report-complex": (FAILS, "report(0, flat(observation) + 0j)", "complex"),
            "report-texts": (FAILS, "report(0, flat(observation).astype(str))"),
            "report-objects": (FAILS, "report(0, np.full(observation.shape, Evil()))"),
            "report-all-masked": (EITHER, "report(0, np.ma.masked_all(observation.shape))"),
            "report-nan": (EITHER, "report(0, observation.values)"),
            "report-step-text": (EITHER, "report('ten', flat(observation))"),
            "report-step-huge": (EITHER, "report(10**5000, flat(observation))"),
            "report-step-evil": (EITHER, "report(Evil(), flat(observation))"),
            "report-step-nan": (EITHER, "report(float('nan'), flat(observation))"),
            "report-number-text": (EITHER, "report(0, flat(observation), loss='small')"),
            "report-number-evil": (EITHER, "report(0, flat(observation), loss=Evil())"),
            "report-forges-a-score": (PASSES, "report(0, flat(observation), rmse=0.0)"),
            "report-names-escape": (EITHER, "report(0, flat(observation), **{'\\x1b[31m\\n': 1.0})"),
            "report-many-names": (EITHER, "report(0, flat(observation), **{f'n{n}': 1.0 for n in range(10**4)})"),
            "reports-a-hundred-thousand": (EITHER, "for step in range(10**5):\n    report(step, flat(observation))"),
            "due-a-million": (EITHER, "for step in range(10**6):\n    report.due(step)"),
            "due-odd": (EITHER, "report.due('x')"),
            "report-from-threads": (
                EITHER,
                "crowd = [threading.Thread(target=report, args=(n, flat(observation))) for n in range(20)]\n"
                "[one.start() for one in crowd]\n[one.join() for one in crowd]",
            ),
            "report-after-the-answer": (
                PASSES,
                "threading.Timer(0.001, report, (1, flat(observation))).start()\n",
            ),
            "report-goes-on": (
                EITHER,
                "def go_on():\n    while time.monotonic() < THE_END:\n        report(1, 0 * flat(observation))\n"
                "threading.Thread(target=go_on, daemon=True).start()",
            ),
            "report-kept-for-the-next-trial": (
                PASSES,
                "before = globals().get('kept')\nglobals()['kept'] = report\nif before is not None:\n    try:\n"
                "        before(1, 0 * flat(observation))\n    except Exception:\n        pass",
            ),
            "report-patched": (PASSES, "type(report).__call__ = type(report).due = lambda *_, **__: True"),
        },
    ),
]

LEAKS = [
    *acts(
        "complete",
        {
            "takes-the-reports-truth": (PASSES, "return stolen([getattr(report, '_truth', None)], observation)"),
            "takes-all-that-the-report-holds": (
                PASSES,
                "slots = [getattr(report, name, None) for name in dir(report)]\nreturn stolen([vars(report) if hasattr(report, '__dict__') else 0, *slots], observation)",
            ),
            "takes-callers-variables": (
                PASSES,
                "frames, frame = [], sys._getframe()\nwhile frame:\n    frames.append(dict(frame.f_locals))\n    frame = frame.f_back\n"
                "return stolen(frames, observation)",
            ),
            "takes-other-threads-variables": (
                PASSES,
                "things = []\nfor frame in sys._current_frames().values():\n    while frame:\n        things.append(dict(frame.f_locals))\n"
                "        frame = frame.f_back\nreturn stolen(things, observation)",
            ),
            "takes-what-the-collector-knows": (PASSES, "return stolen(gc.get_objects(), observation)"),
            "takes-who-shares-the-axes": (
                PASSES,
                "return stolen([one for axis in observation.axes for one in gc.get_referrers(axis)], observation)",
            ),
            "takes-module-variables": (
                PASSES,
                "return stolen([dict(vars(module)) for module in list(sys.modules.values()) if hasattr(module, '__dict__')], observation)",
            ),
            "takes-the-base-of-views": (
                PASSES,
                "return stolen([observation.values.base, observation.mask.base, observation.observed.base], observation)",
            ),
            "takes-cached-calls": (
                PASSES,
                "found = []\nfor name in ('trial', 'judging'):\n    module = sys.modules.get(f'fieldbench.{name}')\n"
                "    cached = getattr(module, '_cached_dataset', None)\n    found += gc.get_referents(cached) if cached else []\n"
                "return stolen(found, observation)",
            ),
            "takes-whatever-lies-in-memory": (
                PASSES,
                "first = np.flatnonzero(observation.mask)[0]\nneedle = observation.values.flat[first].tobytes()\n"
                "size = observation.values.nbytes\nfor piece in memory():\n    at = piece.find(needle)\n    while at >= 0:\n"
                "        start = at - 8 * int(first)\n        if 0 <= start <= len(piece) - size:\n"
                "            array = np.frombuffer(piece[start : start + size]).reshape(observation.shape)\n"
                "            if knows_more(array, observation):\n                return stolen([array], observation)\n"
                "        at = piece.find(needle, at + 1)",
            ),
            "takes-files-that-are-open": (
                PASSES,
                "things = []\nfor to in range(3, 64):\n    try:\n        text = Path(f'/proc/self/fd/{to}').read_bytes() if Path(f'/proc/self/fd/{to}').is_file() else b''\n"
                "    except OSError:\n        continue\n    if b'rmse' in text:\n        return flat(observation) + 1e6",
            ),
        },
    ),
]

#: The base seed and the number of the trial: no method's process may hold them, in whatever form.
SEED, NUMBER = 7310582964173, 402653184273645

SECRET_OPTIONS = ("--jobs", "1", "--timeout", "30", "--seed", str(SEED), "--first-trial", str(NUMBER))


def _disguised(number: int) -> list[int]:
    """A number times an odd constant, as 64 bits and as Python lays its integers out: the search must not find itself."""
    forms = (number, (number & (2**30 - 1)) + ((number >> 30) << 32))
    return [form * 0x9E3779B97F4A7C15 % 2**64 for form in forms]


SECRETS = [
    *acts(
        "complete",
        {
            "finds-numbers-in-memory": (
                PASSES,
                f"wanted = {_disguised(SEED) + _disguised(NUMBER)}\n"
                "for piece in memory():\n    words = np.frombuffer(piece[: len(piece) // 8 * 8], np.uint64)\n"
                "    if np.isin(words * np.uint64(0x9E3779B97F4A7C15), wanted).any():\n        return flat(observation) + 1e6",
            ),
            "finds-texts-in-memory": (
                PASSES,
                f"wanted = {[hashlib.sha256(str(number).encode()).hexdigest() for number in (SEED, NUMBER)]}\n"
                "for piece in memory():\n    for found in re.finditer(rb'(?<!\\d)\\d{13,15}(?!\\d)', piece):\n"
                "        if hashlib.sha256(found.group()).hexdigest() in wanted:\n            return flat(observation) + 1e6",
            ),
            "reads-what-it-was-started-with": (
                PASSES,
                f"wanted = {[hashlib.sha256(str(number).encode()).hexdigest() for number in (SEED, NUMBER)]}\n"
                "told = [Path(f'/proc/self/{name}').read_bytes() for name in ('cmdline', 'environ', 'comm')]\n"
                "told += [os.getcwd().encode(), repr(sys.argv + sys.orig_argv).encode()]\n"
                "for found in re.findall(rb'\\d{13,15}', b' '.join(told)):\n"
                "    if hashlib.sha256(found).hexdigest() in wanted:\n        return flat(observation) + 1e6",
            ),
        },
    ),
]

GROUPS = {
    group.name: group
    for group in (
        Group("endings", tuple(ENDINGS), ("--jobs", "1")),
        Group("endings-beside", tuple(ENDINGS), ("--jobs", "2")),
        Group("processes", tuple(PROCESSES), ("--jobs", "1")),
        Group("processes-beside", tuple(PROCESSES), ("--jobs", "2")),
        Group("patches", tuple(PATCHES), ("--jobs", "1")),
        Group("patches-beside", tuple(PATCHES), ("--jobs", "2")),
        Group("patches-last", tuple(PATCHES), ("--jobs", "1"), last=True),
        Group("hangs", tuple(HANGS), ("--jobs", "2"), trials=1),
        Group("questions", tuple(QUESTIONS), ("--jobs", "1")),
        Group("identities", tuple(IDENTITIES), ("--jobs", "1")),
        Group("slow-questions", tuple(SLOW_QUESTIONS), ("--jobs", "2"), trials=1),
        Group("batches", tuple(BATCHES), ("--jobs", "1"), trials=4),
        Group("returns", tuple(RETURNS), ("--jobs", "1")),
        Group("returns-beside", tuple(RETURNS), ("--jobs", "2")),
        Group("reports", tuple(REPORTS), ("--jobs", "1")),
        Group("reports-to-an-oracle", tuple(REPORTS), ("--jobs", "2", "--select", "oracle[every=1]")),
        Group("leaks", tuple(LEAKS), ("--jobs", "1")),
        Group("leaks-of-what-is-withheld", tuple(LEAKS), ("--jobs", "1", "--select", "holdout"), apart=True),
        Group("secrets", tuple(SECRETS), SECRET_OPTIONS, trials=1, apart=True),
    )
}
