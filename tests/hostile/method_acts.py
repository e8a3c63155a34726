"""What methods do to the harness, by the function that does it."""

from __future__ import annotations

import hashlib

from tests.hostile.commands import Group
from tests.hostile.plugins import EITHER, FAILS, HARMS_ITSELF, PASSES, TIMES_OUT, acts

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
                """
                class Odd(BaseException): pass
                raise Odd('far up')
                """,
                "Odd: far up|exited with code",
            ),
            "generator-exit": (FAILS, "raise GeneratorExit", "GeneratorExit|exited with code"),
            "stop-iteration": (FAILS, "next(iter(()))", "StopIteration"),
            "without-text": (FAILS, "raise ValueError", "ValueError"),
            "text-raises": (
                FAILS,
                """
                class Odd(Exception):
                    def __str__(self):
                        raise RuntimeError('no words')
                raise Odd
                """,
                "Odd",
            ),
            "text-exits": (
                FAILS,
                """
                class Odd(Exception):
                    def __str__(self):
                        sys.exit(0)
                raise Odd
                """,
            ),
            "text-loops": (
                EITHER,
                r"""
                class Odd(Exception):
                    def __str__(self):
                        return '\n' * 10**6
                raise Odd
                """,
            ),
            "name-escapes": (FAILS, "raise type('Odd\\x1b[31m\\nname', (Exception,), {})('x')"),
            "text-escapes": (FAILS, "raise ValueError('\\x1b]0;owned\\x07\\x1b[2J first\\nsecond')", "first"),
            "text-half-surrogate": (FAILS, "raise ValueError('\\ud800 half')", "half"),
            "text-huge": (FAILS, "raise ValueError('x' * 10**7)", "ValueError: x"),
            "exception-group": (FAILS, "raise ExceptionGroup('many', [ValueError(n) for n in range(9)])", "many"),
            "recursion": (
                FAILS,
                """
                def again():
                    again()
                again()
                """,
                "RecursionError",
            ),
            "deep-recursion": (
                FAILS,
                """
                sys.setrecursionlimit(10**9)
                def again(x):
                    return [*map(again, [x])]
                again(1)
                """,
            ),
            "memory-error": (FAILS, "np.ones(2**50)", "allocate"),
            "segfault": (FAILS, "segfault()", "SIGSEGV"),
            "abort": (FAILS, "os.abort()", "SIGABRT"),
            "kills-itself": (FAILS, "os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
            "kills-its-group": (FAILS, "os.killpg(0, signal.SIGKILL)", "SIGKILL"),
            "terminates-its-group": (
                FAILS,
                """
                os.killpg(0, signal.SIGTERM)
                time.sleep(1)
                """,
            ),
            "interrupts-its-group": (
                EITHER,
                """
                os.killpg(0, signal.SIGINT)
                time.sleep(0.2)
                """,
            ),
            "traces-and-exits": (EITHER, "sys.settrace(lambda *_: sys.exit(0))"),
            "profiles-and-exits": (EITHER, "sys.setprofile(lambda *_: os._exit(0))"),
            "becomes-true": (FAILS, "os.execv('/bin/true', ['true'])"),
            "reads-stdin": (FAILS, "input()", "EOF"),
            "causes-without-end": (
                FAILS,
                """
                error = ValueError('first')
                for number in range(50000):
                    later = ValueError(number)
                    later.__cause__, error = error, later
                raise error
                """,
            ),
            "notes-exit": (
                FAILS,
                """
                class Odd(ValueError):
                    @property
                    def __notes__(self):
                        sys.exit(0)
                raise Odd('noted')
                """,
            ),
            "odd-syntax-error": (FAILS, "raise SyntaxError('odd', (Evil(), 10**30, -5, b'text', 'x', 2.5))"),
            "deletes-its-file": (EITHER, "Path(__file__).unlink(missing_ok=True)"),
            "spoils-its-file": (EITHER, "Path(__file__).write_text('raise SystemExit(0)')"),
        },
    ),
]

PROCESSES = [
    *acts(
        "complete",
        {
            "alarm-later": (EITHER, "signal.setitimer(signal.ITIMER_REAL, 0.005)"),
            "forks-and-returns-twice": (EITHER, "os.fork()"),
            "forks-and-lets-the-child-answer": (
                EITHER,
                """
                if os.fork():
                    os._exit(0)
                """,
            ),
            "forks-and-raises-in-the-child": (
                PASSES,
                """
                if os.fork() == 0:
                    raise ValueError('the child')
                """,
            ),
            "daemon": (PASSES, "daemon()"),
            "program-left-behind": (PASSES, "subprocess.Popen(['sleep', '20'], close_fds=False)"),
            "many-children": (
                PASSES,
                """
                for _ in range(20):
                    if os.fork() == 0:
                        time.sleep(20)
                        os._exit(0)
                """,
            ),
            "thread-goes-on": (PASSES, "threading.Thread(target=loop, daemon=True).start()"),
            "thread-blocks-the-end": (PASSES, "threading.Thread(target=time.sleep, args=(60,)).start()"),
            "thread-exits-later": (
                EITHER,
                "threading.Timer(0.01, os._exit, (0,)).start()",
            ),
            "hangs-at-exit": (
                PASSES,
                """
                import atexit
                atexit.register(loop)
                """,
            ),
            "exits-when-collected": (
                EITHER,
                """
                class Odd(np.ndarray):
                    def __del__(self):
                        os._exit(0)
                return flat(observation).view(Odd)
                """,
            ),
            "closes-everything": (FAILS, "os.closerange(0, 256)"),
            "closes-standard-streams": (EITHER, "os.closerange(0, 3)"),
            "nulls-over-descriptors": (
                FAILS,
                """
                hole = os.open('/dev/null', os.O_RDWR)
                for to in range(3, 20):
                    os.dup2(hole, to)
                """,
            ),
            "stdout-over-descriptors": (
                FAILS,
                """
                for to in range(3, 20):
                    os.dup2(1, to)
                """,
            ),
            "writes-to-descriptors": (EITHER, r"write_everywhere(b'\x00\x01nonsense' * 99)"),
            "writes-huge-lengths": (EITHER, r"write_everywhere(b'\xff' * 8)"),
            "writes-pickles": (
                EITHER,
                """
                import multiprocessing.connection as mc, pickle
                for to in range(3, 20):
                    try:
                        os.fstat(to)
                        link = mc.Connection(os.dup(to))
                        link.send(Evil())
                    except (OSError, ValueError):
                        pass
                """,
            ),
            "reads-descriptors": (
                EITHER,
                """
                for to in range(3, 20):
                    try:
                        os.set_blocking(to, False)
                        os.read(to, 10**6)
                    except OSError:
                        pass
                """,
            ),
            "truncates-open-files": (
                PASSES,
                """
                for to in range(3, 64):
                    try:
                        os.ftruncate(to, 0)
                    except OSError:
                        pass
                """,
            ),
            "prints-much": (
                EITHER,
                """
                for _ in range(100):
                    os.write(1, b'x' * 10**6)
                """,
            ),
            "prints-escapes": (
                PASSES,
                r"""
                print('\x1b[2J\x1b]0;owned\x07', flush=True)
                print('\x1b[31m', file=sys.stderr)
                """,
            ),
            "prints-no-utf8": (PASSES, "os.write(1, bytes(range(256)))"),
            "without-stdout": (PASSES, "sys.stdout = sys.stderr = sys.__stdout__ = None"),
            "memory-hog": (FAILS, "hog()"),
            "own-session": (PASSES, "os.setsid() if os.getpgrp() != os.getpid() else os.getsid(0)"),
            "changes-folder": (PASSES, "os.chdir('/')"),
            "umask": (PASSES, "os.umask(0o777)"),
            "removes-temporary-files": (
                PASSES,
                """
                import shutil, tempfile
                for folder in Path(tempfile.gettempdir()).glob('pymp-*'):
                    shutil.rmtree(folder, ignore_errors=True)
                """,
            ),
            "stops-who-started-it": (PASSES, "os.kill(os.getppid(), signal.SIGSTOP)"),
            "prints-escapes-and-ends": (
                FAILS,
                r"""
                os.write(1, b'\x1b[2J\x1b]0;owned\x07\n\xff\n')
                os._exit(3)
                """,
            ),
            "freezes-the-collector": (
                PASSES,
                """
                gc.freeze()
                gc.disable()
                """,
            ),
            "small-stack": (HARMS_ITSELF, "sys.setrecursionlimit(40)"),
            "no-more-files": (PASSES, "resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))"),
            "no-more-bytes": (EITHER, "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"),
            "no-more-memory": (EITHER, "resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))"),
            "slows-itself": (
                PASSES,
                """
                os.nice(19)
                os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
                """,
            ),
        },
    ),
]

#: What is done to the ways between processes, and to the processes at their other ends.
CHANNELS = [
    *acts(
        "complete",
        {
            "spoils-what-it-is-told": (PASSES, "os.pwrite(5, b'\\xff' * 9000, 0)"),
            "asks-after-spoiling-what-it-is-told": (
                FAILS,
                """
                os.pwrite(5, b'\\0\\0\\0\\3two', 0)
                return report.threads * flat(observation)
                """,
            ),
            "swells-what-it-is-told": (PASSES, "os.ftruncate(5, 1 << 40)"),
            "kills-who-started-it": (EITHER, "os.kill(os.getppid(), signal.SIGKILL)"),
            "slows-who-started-it": (PASSES, "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)"),
            "kills-judges": (
                EITHER,
                """
                for entry in Path('/proc').glob('[0-9]*/comm'):
                    number = int(entry.parent.name)
                    if entry.read_text() == 'fb-judge\\n' and os.getppid() == parent_of(number):
                        os.kill(number, signal.SIGKILL)
                """,
            ),
            "child-reads-along": (
                EITHER,
                """
                if os.fork() == 0:
                    os.setsid()
                    os.closerange(4, 256)
                    while time.monotonic() < THE_END and os.read(3, 4096):
                        pass
                    os._exit(0)
                """,
            ),
            "reports-from-a-child": (
                EITHER,
                """
                if os.fork() == 0:
                    for step in range(50):
                        report(step, flat(observation))
                    os._exit(0)
                """,
            ),
            "hears-no-more": (EITHER, "socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_RD)"),
            "says-no-more": (FAILS, "socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_WR)"),
            "passes-descriptors": (FAILS, "socket.send_fds(socket.socket(fileno=os.dup(3)), [b'FBF2'], [0] * 200)"),
            "shrinks-the-socket": (
                PASSES,
                """
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    socket.socket(fileno=os.dup(3)).setsockopt(socket.SOL_SOCKET, option, 1)
                """,
            ),
            "makes-a-pipe-of-its-file": (
                EITHER,
                """
                Path(__file__).unlink(missing_ok=True)
                os.mkfifo(__file__)
                """,
            ),
        },
        module="""
        def parent_of(number):
            try:
                return int(Path(f'/proc/{number}/stat').read_text().rpartition(')')[2].split()[1])
            except OSError:
                return 0
        """,
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
            "patches-generator": (HARMS_ITSELF, "np.random.Generator = np.random.PCG64 = None"),
            "seeds-globally": (
                PASSES,
                """
                import random
                random.seed(0)
                np.random.seed(0)
                """,
            ),
            "patches-seterr": (PASSES, "np.seterr(all='raise')"),
            "patches-error-state": (HARMS_ITSELF, "np.errstate = np.seterr = None"),
            "patches-warnings": (PASSES, "warnings.simplefilter('error')"),
            "patches-mean": (
                HARMS_ITSELF,
                """
                answer = flat(observation)
                np.mean = lambda *_, **__: np.float64(0)
                return answer
                """,
            ),
            "patches-sqrt": (HARMS_ITSELF, "np.sqrt = np.abs = np.max = np.sum = lambda *_, **__: np.float64(0)"),
            "patches-array": (
                HARMS_ITSELF,
                """
                answer = flat(observation)
                np.asarray = np.array = np.zeros_like
                return answer
                """,
            ),
            "patches-save": (HARMS_ITSELF, "np.save = np.load = lambda *_, **__: None"),
            "patches-isfinite": (HARMS_ITSELF, "np.isfinite = lambda value: np.ones(np.shape(value), bool)"),
            "patches-buffer-size": (PASSES, "np.setbufsize(16)"),
            "patches-rounding": (
                HARMS_ITSELF,
                """
                answer = flat(observation)
                ctypes.CDLL('libm.so.6').fesetround(0x800)
                return answer
                """,
            ),
            "patches-torch-dtype": (
                HARMS_ITSELF,
                """
                import torch
                torch.set_default_dtype(torch.float64)
                torch.manual_seed(0)
                """,
            ),
            "patches-scipy": (
                PASSES,
                """
                import scipy.spatial, scipy.interpolate
                scipy.spatial.cKDTree = scipy.spatial.KDTree = None
                scipy.interpolate.NearestNDInterpolator.__call__ = lambda self, *_: 0 * self.values
                """,
            ),
            "patches-metric": (
                PASSES,
                """
                import fieldbench.metric as m
                m.RMSE.score = lambda *_: 0.0
                """,
            ),
            "patches-all-scores": (
                PASSES,
                """
                import fieldbench.metric as m
                m.score_all = lambda *_: ({'rmse': 0.0}, {})
                for name in ('trial', 'judging'):
                    vars(sys.modules.get(f'fieldbench.{name}') or m)['score_all'] = m.score_all
                """,
            ),
            "patches-draws": (
                HARMS_ITSELF,
                """
                for name in ('trial', 'judging'):
                    module = sys.modules.get(f'fieldbench.{name}')
                    for function in ('draw', 'stream', 'method_seed', 'run'):
                        if hasattr(module, function):
                            setattr(module, function, lambda *_, **__: None)
                """,
            ),
            "patches-selection": (
                PASSES,
                """
                import fieldbench.selection as s
                s.Recorder.choose = lambda self, final: (0 * final, {})
                """,
            ),
            "patches-registry": (
                HARMS_ITSELF,
                """
                import fieldbench.registry as r
                r.Registry.metrics = lambda *_: []
                r.Registry.method = None
                """,
            ),
            "patches-observation": (
                HARMS_ITSELF,
                """
                from fieldbench.field import Observation
                Observation.observed = property(lambda self: self.values[:1])
                """,
            ),
            "patches-candidates": (
                PASSES,
                """
                for name, module in list(sys.modules.items()):
                    for value in list(vars(module).values()):
                        if isinstance(value, type) and getattr(value, 'name', '') in ('honest', 'nearest'):
                            value.complete = lambda self, observation, **_: 0 * flat(observation)
                """,
            ),
            "patches-every-module": (
                HARMS_ITSELF,
                """
                answer = flat(observation)
                for name, module in list(sys.modules.items()):
                    if name.startswith('fieldbench.'):
                        vars(module).clear()
                return answer
                """,
            ),
            "empties-modules": (
                HARMS_ITSELF,
                """
                answer = flat(observation)
                sys.modules.clear()
                return answer
                """,
            ),
            "empties-environment": (PASSES, "os.environ.clear()"),
            "sets-threads": (PASSES, "os.environ['OMP_NUM_THREADS'] = os.environ['CUDA_VISIBLE_DEVICES'] = 'nonsense'"),
            "patches-clock": (PASSES, "time.perf_counter = time.monotonic = lambda: 0.0"),
            "patches-clock-to-look-fast": (
                PASSES,
                """
                time.sleep(0.3)
                time.perf_counter = time.monotonic = time.time = lambda: 0.0
                """,
            ),
            "patches-sleep": (PASSES, "time.sleep = lambda *_: None"),
            "patches-threads": (HARMS_ITSELF, "threading.Thread.start = threading.Thread.join = lambda *_, **__: None"),
            "patches-locks": (HARMS_ITSELF, "threading.Lock = threading.RLock = threading.Event = None"),
            "patches-pickle": (
                HARMS_ITSELF,
                """
                import pickle
                pickle.loads = pickle.dumps = lambda *_, **__: None
                """,
            ),
            "patches-json": (
                HARMS_ITSELF,
                """
                import json
                json.loads = json.dumps = lambda *_, **__: '{}'
                json.JSONEncoder.encode = None
                """,
            ),
            "patches-sockets": (HARMS_ITSELF, "socket.socket.send = socket.socket.sendall = socket.socket.recv = None"),
            "patches-fork": (PASSES, "os.fork = os.kill = os.waitpid = lambda *_: 0"),
            "patches-builtins": (
                HARMS_ITSELF,
                """
                import builtins
                answer = flat(observation)
                builtins.len = builtins.float = builtins.isinstance = None
                return answer
                """,
            ),
            "patches-imports": (
                HARMS_ITSELF,
                """
                sys.path.clear()
                sys.meta_path.clear()
                sys.path_hooks.clear()
                """,
            ),
            "patches-exception-hook": (PASSES, "sys.excepthook = threading.excepthook = lambda *_: os._exit(0)"),
            "patches-signals": (
                PASSES,
                """
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
                    signal.signal(number, signal.SIG_IGN)
                """,
            ),
            "patches-base-class": (
                HARMS_ITSELF,
                """
                fieldbench.Method.complete = fieldbench.Method.applicable = None
                type(self).batch_size = None
                """,
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
            "deadlocks": (
                TIMES_OUT,
                """
                lock = threading.Lock()
                lock.acquire()
                lock.acquire()
                """,
            ),
            "keeps-the-interpreter": (TIMES_OUT, "re.match(r'(a*)*b', 'a' * 60)"),
            "sleeps-in-a-session-of-its-own": (
                TIMES_OUT,
                """
                if os.fork():
                    os.wait()
                os.setsid()
                sleep_deaf()
                """,
            ),
            "becomes-a-sleeper": (FAILS, "os.execv('/bin/sleep', ['sleep', '400'])"),
            "closes-everything-and-sleeps": (
                FAILS,
                """
                os.closerange(0, 256)
                sleep_deaf()
                """,
            ),
            "exits-while-a-child-holds-on": (
                FAILS,
                """
                daemon()
                os._exit(3)
                """,
            ),
            "hangs-behind-a-daemon": (
                TIMES_OUT,
                """
                daemon()
                sleep_deaf()
                """,
            ),
            "writes-to-descriptors-and-sleeps": (
                FAILS,
                r"""
                write_everywhere(b'\x00\x00\x00\x09abc')
                sleep_deaf()
                """,
            ),
            "floods-descriptors": (
                FAILS,
                """
                for to in range(3, 20):
                    try:
                        os.set_blocking(to, False)
                    except OSError:
                        pass
                while time.monotonic() < THE_END:
                    for to in range(3, 20):
                        try:
                            os.write(to, b'{}' * 999)
                        except OSError:
                            pass
                """,
            ),
            "prints-for-ever": (
                TIMES_OUT,
                """
                while time.monotonic() < THE_END:
                    os.write(1, b'x' * 10**5)
                """,
            ),
            "forks-for-ever": (
                FAILS,
                """
                resource.setrlimit(resource.RLIMIT_NPROC, resource.getrlimit(resource.RLIMIT_NPROC))
                for _ in range(30):
                    if os.fork() == 0:
                        sleep_deaf()
                sleep_deaf()
                """,
            ),
            "interrupt-swallowed": (
                TIMES_OUT,
                """
                while time.monotonic() < THE_END:
                    try:
                        time.sleep(1)
                    except BaseException:
                        pass
                """,
            ),
            "reports-for-ever": (
                FAILS,
                """
                step = 0
                while time.monotonic() < THE_END:
                    step += 1
                    report(step, flat(observation))
                """,
            ),
            "begins-for-ever": (
                FAILS,
                """
                while time.monotonic() < THE_END:
                    report._desk.tell({'id': report._request, 'began': True})
                """,
            ),
            "asks-for-ever": (
                FAILS,
                """
                while time.monotonic() < THE_END:
                    report.due(1)
                    report.threads
                """,
            ),
            "answers-with-a-generator-for-ever": (FAILS, "return (0.0 for _ in iter(int, 1))"),
            "answers-with-a-slow-array": (
                FAILS,
                """
                class Odd:
                    def __array__(self, *_, **__):
                        loop()
                return Odd()
                """,
            ),
        },
    ),
    *acts(
        "complete_batch",
        {"batch-loops": (EITHER, "loop()")},
        extra="""
                def batch_size(self, shape, device):
                    return 4
                """,
    ),
]

QUESTIONS = [
    *acts(
        "applicable",
        {
            "applicable-exits": (FAILS, "sys.exit(0)"),
            "applicable-ends": (FAILS, "os._exit(0)"),
            "applicable-interrupts": (FAILS, "raise KeyboardInterrupt"),
            "applicable-raises": (FAILS, "raise RuntimeError"),
            "applicable-segfault": (FAILS, "segfault()"),
            "applicable-number": (EITHER, "return 42"),
            "applicable-escapes": (EITHER, "return '\\x1b[31mno\\nnot at all'"),
            "applicable-has-no-truth-value": (EITHER, "return np.zeros(2)"),
            "applicable-evil": (EITHER, "return Evil()"),
            "applicable-mutates": (
                HARMS_ITSELF,
                "object.__setattr__(observation, 'mask', np.ones(observation.shape, bool))",
            ),
            "applicable-without-end": (EITHER, "return 'no' * 10**8"),
            "applicable-patches": (
                PASSES,
                """
                import fieldbench.metric as m
                m.RMSE.score = lambda *_: 0.0
                """,
            ),
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
            "check-shape-text-exits": (
                FAILS,
                """
                class Odd(TypeError):
                    def __str__(self):
                        sys.exit(0)
                raise Odd
                """,
            ),
            "check-shape-returns": (PASSES, "return Evil()"),
        },
    ),
    *acts(
        "batch_size",
        {
            "batch-size-text": (FAILS, "return 'two'", "batch_size returned 'two'"),
            "batch-size-zero": (FAILS, "return 0"),
            "batch-size-negative": (FAILS, "return -(10**30)"),
            "batch-size-huge": (EITHER, "return 10**5000"),
            "batch-size-nan": (FAILS, "return float('nan')"),
            "batch-size-none": (FAILS, "return None"),
            "batch-size-array": (FAILS, "return np.arange(3)"),
            "batch-size-evil": (FAILS, "return Evil()"),
            "batch-size-exits": (FAILS, "sys.exit(0)"),
            "batch-size-ends": (FAILS, "os._exit(0)"),
            "batch-size-interrupts": (FAILS, "raise KeyboardInterrupt"),
            "batch-size-segfault": (FAILS, "segfault()"),
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
            "fingerprint-without-end": (FAILS, "return 'weights' * 10**8"),
            "fingerprint-none": (EITHER, "return None"),
            "fingerprint-bytes": (EITHER, "return b'\\x00' * 10"),
            "fingerprint-evil": (EITHER, "return Evil()"),
            "fingerprint-never-the-same": (EITHER, "return os.urandom(8).hex()"),
            "fingerprint-patches": (HARMS_ITSELF, "np.random.default_rng = None"),
        },
    ),
]

SLOW_QUESTIONS = [
    *acts("applicable", {"applicable-loops": (FAILS, "loop()")}),
    *acts("check_shape", {"check-shape-sleeps-deaf": (FAILS, "sleep_deaf()")}),
    *acts("batch_size", {"batch-size-stops-itself": (FAILS, "os.kill(os.getpid(), signal.SIGSTOP)")}),
    *acts("fingerprint", {"fingerprint-loops": (FAILS, "loop()")}),
]

BATCHES = [
    *acts(
        "complete_batch",
        {
            "batch-none": (PASSES, "return None"),
            "batch-without-end": (PASSES, "while True:\n    yield flat(observations[0])"),
            "batch-too-few": (PASSES, "return [flat(observations[0])]"),
            "batch-too-many": (PASSES, "return [flat(observations[0])] * 99"),
            "batch-generator": (PASSES, "return (flat(observation) for observation in observations)"),
            "batch-raises": (PASSES, "raise ValueError"),
            "batch-exits": (PASSES, "sys.exit(0)"),
            "batch-ends": (PASSES, "os._exit(0)"),
            "batch-segfault": (PASSES, "segfault()"),
            "batch-one-is-wrong": (PASSES, "return [np.nan, *[flat(one) for one in observations[1:]]]"),
            "batch-dictionary": (PASSES, "return {n: flat(one) for n, one in enumerate(observations)}"),
            "batch-empties-its-arguments": (
                PASSES,
                """
                observations.clear()
                seeds.clear()
                reports.clear()
                """,
            ),
        },
        extra="""
                def batch_size(self, shape, device):
                    return 4
                """,
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
            "file-that-is-cut-off": (
                FAILS,
                """
                file = Path(__file__).with_suffix(f'.{os.getpid()}')
                made = np.memmap(file, float, 'w+', shape=observation.shape)
                os.truncate(file, 0)
                return made
                """,
            ),
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
                """
                class Odd:
                    def __array__(self, *_, **__):
                        sys.exit(0)
                return Odd()
                """,
            ),
            "endless-array-function": (
                FAILS,
                """
                class Odd:
                    def __array__(self, *_, **__):
                        return self
                return Odd()
                """,
            ),
            "evil-detach": (
                FAILS,
                """
                class Odd:
                    def detach(self):
                        os._exit(0)
                return Odd()
                """,
            ),
            "everything-attribute": (
                FAILS,
                """
                from unittest.mock import MagicMock
                return MagicMock()
                """,
            ),
            "bad-interface": (
                FAILS,
                """
                class Odd:
                    __array_interface__ = {'shape': (8, 8), 'typestr': '<f8', 'data': (8, True), 'version': 3}
                return Odd()
                """,
            ),
            "subclass-with-own-rules": (
                EITHER,
                """
                class Odd(np.ndarray):
                    def __array_ufunc__(self, *_, **__):
                        return np.zeros(self.shape)
                    def __array_function__(self, *_, **__):
                        return np.zeros(self.shape)
                    def __reduce__(self):
                        return os._exit, (77,)
                return flat(observation).view(Odd)
                """,
            ),
            "torch-meta": (
                FAILS,
                """
                import torch
                return torch.zeros(observation.shape, device='meta')
                """,
            ),
            "torch-with-gradient": (
                HARMS_ITSELF,
                """
                import torch
                return torch.tensor(flat(observation), requires_grad=True)
                """,
            ),
            "read-only": (PASSES, "return np.broadcast_to(observation.observed.mean(), observation.shape)"),
            "backwards": (PASSES, "return np.asfortranarray(flat(observation)[::-1])"),
            "other-byte-order": (PASSES, "return flat(observation).astype('>f8')"),
            "overlapping": (
                PASSES,
                """
                row = np.full(15, observation.observed.mean())
                return np.lib.stride_tricks.as_strided(row, observation.shape, (8, 8))
                """,
            ),
            "extended-precision": (EITHER, "return flat(observation).astype(np.longdouble)"),
            "beyond-float": (FAILS, "return [[10**400] * 8] * 8"),
            "truncated-file": (
                FAILS,
                """
                file = Path(__file__).with_suffix('.bin')
                file.write_bytes(bytes(2**16))
                array = np.memmap(file, float, 'r', 0, observation.shape)
                os.truncate(file, 0)
                return array
                """,
            ),
            "changes-afterwards": (
                EITHER,
                """
                answer = flat(observation)
                def spoil():
                    while time.monotonic() < THE_END:
                        answer[:] = np.nan
                threading.Thread(target=spoil, daemon=True).start()
                return answer
                """,
            ),
            "zeroes-the-observation": (
                EITHER,
                """
                answer = flat(observation)
                observation.values.setflags(write=True)
                observation.values[:] = 0.0
                return answer
                """,
            ),
            "widens-the-mask": (
                EITHER,
                """
                answer = flat(observation)
                observation.mask.setflags(write=True)
                observation.mask[:] = True
                return answer
                """,
            ),
            "moves-the-axes": (
                PASSES,
                """
                for axis in observation.axes:
                    axis.coordinates.setflags(write=True)
                    axis.coordinates[:] = 0.0
                """,
            ),
            "replaces-the-observation": (
                EITHER,
                """
                answer = flat(observation)
                for name in ('values', 'mask', 'valid', 'axes'):
                    object.__setattr__(observation, name, None)
                return answer
                """,
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
            "reports-a-hundred-thousand": (
                EITHER,
                """
                for step in range(10**5):
                    report(step, flat(observation))
                """,
            ),
            "due-a-million": (
                EITHER,
                """
                for step in range(10**6):
                    report.due(step)
                """,
            ),
            "due-odd": (EITHER, "report.due('x')"),
            "report-from-threads": (
                EITHER,
                """
                crowd = [threading.Thread(target=report, args=(n, flat(observation))) for n in range(20)]
                [one.start() for one in crowd]
                [one.join() for one in crowd]
                """,
            ),
            "report-after-the-answer": (
                PASSES,
                "threading.Timer(0.001, report, (1, flat(observation))).start()\n",
            ),
            "report-goes-on": (
                HARMS_ITSELF,
                """
                def go_on():
                    while time.monotonic() < THE_END:
                        report(1, 0 * flat(observation))
                threading.Thread(target=go_on, daemon=True).start()
                """,
            ),
            "report-kept-for-the-next-trial": (
                PASSES,
                """
                before = globals().get('kept')
                globals()['kept'] = report
                if before is not None:
                    try:
                        before(1, 0 * flat(observation))
                    except Exception:
                        pass
                """,
            ),
            "report-patched": (PASSES, "type(report).__call__ = type(report).due = lambda *_, **__: True"),
        },
    ),
]

#: How a method speaks for its process: every answer is changed so on its way.
_FORGE = """
import fieldbench.execution.worker as worker

said_by_itself = worker.encode


def forge(**changes):
    worker.encode = lambda said: said_by_itself({**said, **changes} if 'status' in said else said)


def as_estimate(*parts, **more):
    return fieldbench.Estimate(np.zeros((8, 8)), *parts, **more)
"""

FORGERIES = [
    *acts(
        "complete",
        {
            "forges-a-mean-of-text": (FAILS, "forge(estimates=[fieldbench.Estimate('mean')])"),
            "forges-a-mean-of-estimates": (FAILS, "forge(estimates=[fieldbench.Estimate(as_estimate())])"),
            "forges-a-number": (FAILS, "forge(estimates=[5])"),
            "forges-two-for-one": (FAILS, "forge(estimates=[as_estimate()] * 2)"),
            "forges-none": (FAILS, "forge(estimates=[])"),
            "forges-a-level-of-text": (FAILS, "forge(estimates=[as_estimate(quantiles={'x': np.zeros((8, 8))})])"),
            "forges-a-small-deviation": (FAILS, "forge(estimates=[as_estimate(np.zeros(3))])"),
            "forges-members-of-text": (FAILS, "forge(estimates=[as_estimate(members='many')])"),
            "forges-a-distribution": (FAILS, "forge(estimates=[as_estimate(distribution=['normal'])])"),
            "forges-a-floor": (FAILS, "forge(estimates=[as_estimate(floor='deep')])"),
            "forges-threads": (FAILS, "forge(diagnostics={'threads': 'many'})"),
            "forges-a-traceback": (FAILS, "forge(diagnostics={'traceback': [5]})"),
            "forges-what-a-judge-says": (
                PASSES,
                "forge(metrics={'rmse': 0.0}, seconds=0.0, records=[{}], diagnostics={'rmse': 0.0, 'curve': 5})",
            ),
            "forges-a-status": (FAILS, "forge(status='fine')"),
            "forges-no-status": (FAILS, "forge(status=None)"),
            "forges-a-time-out": (FAILS, "forge(status='timeout', estimates=[])"),
            "forges-a-reason-of-lines": (
                FAILS,
                "forge(status='failed', estimates=[], error='\\x1b[2J first\\nsecond')",
                "first second",
            ),
            "forges-a-reason-without-end": (FAILS, "forge(status='failed', estimates=[], error='x' * 10**6)"),
            "forges-no-reason": (FAILS, "forge(status='failed', estimates=[], error='')"),
            "forges-a-header": (FAILS, "worker.encode = lambda said: b'FBF2' + bytes(12)"),
            "forges-the-name-of-a-kind": (FAILS, "forge(more={'\\0': 'Popen', 'args': 'true'})"),
        },
        module=_FORGE,
    ),
]

ESTIMATES = [
    *acts(
        "complete",
        {
            "deviation-nan": (FAILS, "return Estimate(flat(observation), flat(observation) * np.nan)"),
            "deviation-negative": (FAILS, "return Estimate(flat(observation), -np.ones(observation.shape))"),
            "deviation-scalar": (FAILS, "return Estimate(flat(observation), 1.0)"),
            "deviation-complex": (FAILS, "return Estimate(flat(observation), flat(observation) * 1j)"),
            "deviation-huge": (
                PASSES,
                "return Estimate(flat(observation), np.full(observation.shape, 1e308), distribution='lognormal')",
            ),
            "members-many": (FAILS, "return Estimate(flat(observation), members=np.zeros((500, 8, 8)))"),
            "members-one": (FAILS, "return Estimate(flat(observation), members=np.zeros((1, 8, 8)))"),
            "members-without-end": (
                FAILS,
                "return Estimate(flat(observation), members=(flat(observation) for _ in iter(int, 1)))",
            ),
            "levels-nan": (FAILS, "return Estimate(flat(observation), quantiles={np.nan: flat(observation)})"),
            "levels-cross": (
                FAILS,
                "return Estimate(flat(observation), quantiles={0.1: 1 + flat(observation), 0.9: flat(observation)})",
            ),
            "levels-exit": (
                FAILS,
                """
                class Odd(dict):
                    def __iter__(self):
                        sys.exit(0)
                return Estimate(flat(observation), quantiles=Odd({0.5: flat(observation)}))
                """,
            ),
            "distribution-evil": (
                FAILS,
                "return Estimate(flat(observation), np.ones(observation.shape), distribution=Evil())",
            ),
            "floor-huge": (FAILS, "return Estimate(flat(observation), np.ones(observation.shape), floor=10**5000)"),
            "checks-itself": (
                FAILS,
                """
                class Odd(Estimate):
                    def checked(self, valid):
                        return self
                return Odd(flat(observation) * np.nan, -np.ones(observation.shape), members='many')
                """,
            ),
            "reports-that-check-themselves": (
                EITHER,
                """
                class Odd(Estimate):
                    def checked(self, valid):
                        return self
                report(0, Odd(flat(observation), -np.ones(observation.shape)))
                """,
            ),
        },
        module="from fieldbench import Estimate",
    ),
]

REFITS = [
    *acts(
        "refit.complete",
        {
            "refit-exits": (FAILS, "sys.exit(0)"),
            "refit-ends": (FAILS, "os._exit(0)"),
            "refit-segfault": (FAILS, "segfault()"),
            "refit-loops": (TIMES_OUT, "loop()"),
            "refit-fits-for-ever": (
                TIMES_OUT,
                """
                while time.monotonic() < THE_END:
                    fit(observation, seed)
                """,
            ),
            "refit-swallows-the-end": (
                TIMES_OUT,
                """
                while time.monotonic() < THE_END:
                    try:
                        fit(observation, seed)
                        raise KeyboardInterrupt
                    except BaseException:
                        pass
                """,
            ),
            "refit-none": (FAILS, "return None"),
            "refit-array": (FAILS, "return flat(observation)"),
            "refit-nan": (FAILS, "return fieldbench.Estimate(observation.values)"),
            "refit-fits-twice-at-once": (
                EITHER,
                """
                made = []
                threads = [
                    threading.Thread(target=lambda: made.append(fit(observation, seed)), daemon=True) for _ in range(2)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                return made[0]
                """,
            ),
            "refit-fits-nothing": (FAILS, "fit(None, seed)"),
            "refit-fits-another-shape": (
                FAILS,
                "return fit(fieldbench.Observation(np.ones((3, 3)), np.ones((3, 3), bool)), seed)",
            ),
            "refit-fits-another-shape-later": (
                FAILS,
                """
                fit(observation, seed)
                return fit(fieldbench.Observation(np.ones((3, 3)), np.ones((3, 3), bool)), seed)
                """,
            ),
            "refit-seed-without-end": (FAILS, "return fit(observation, 10**5000)"),
            "refit-withholds-odd": (FAILS, "withhold('half', None)"),
        },
    ),
]

LEAKS = [
    *acts(
        "complete",
        {
            "writes-down-what-it-is-asked-about": (
                PASSES,
                """
                made = flat(observation)
                for file in Path(__file__).parent.glob('asked-*.npy'):
                    asked = np.load(file)
                    known = np.isfinite(asked)
                    both = known & observation.mask
                    if np.array_equal(asked[both], observation.values[both]) and (known & ~observation.mask).any():
                        made[known] = asked[known]
                return made
                """,
            ),
        },
        extra="""
        def applicable(self, observation):
            np.save(Path(__file__).parent / f'asked-{os.getpid()}.npy', observation.values)
        """,
    ),
    *acts(
        "complete",
        {
            "takes-the-reports-truth": (PASSES, "return stolen([getattr(report, '_truth', None)], observation)"),
            "takes-all-that-the-report-holds": (
                PASSES,
                """
                slots = [getattr(report, name, None) for name in dir(report)]
                return stolen([vars(report) if hasattr(report, '__dict__') else 0, *slots], observation)
                """,
            ),
            "takes-callers-variables": (
                PASSES,
                """
                frames, frame = [], sys._getframe()
                while frame:
                    frames.append(dict(frame.f_locals))
                    frame = frame.f_back
                return stolen(frames, observation)
                """,
            ),
            "takes-other-threads-variables": (
                PASSES,
                """
                things = []
                for frame in sys._current_frames().values():
                    while frame:
                        things.append(dict(frame.f_locals))
                        frame = frame.f_back
                return stolen(things, observation)
                """,
            ),
            "takes-what-the-collector-knows": (PASSES, "return stolen(gc.get_objects(), observation)"),
            "takes-who-shares-the-axes": (
                PASSES,
                "return stolen([one for axis in observation.axes for one in gc.get_referrers(axis)], observation)",
            ),
            "takes-module-variables": (
                PASSES,
                """
                modules = [dict(getattr(module, '__dict__', {})) for module in [*sys.modules.values()]]
                return stolen(modules, observation)
                """,
            ),
            "takes-the-base-of-views": (
                PASSES,
                """
                seen = (observation.values, observation.mask, observation.observed)
                return stolen([array.base for array in seen], observation)
                """,
            ),
            "takes-cached-calls": (
                PASSES,
                """
                found = []
                for name in ('trial', 'judging'):
                    module = sys.modules.get(f'fieldbench.{name}')
                    cached = getattr(module, '_cached_dataset', None)
                    found += gc.get_referents(cached) if cached else []
                return stolen(found, observation)
                """,
            ),
            "takes-whatever-lies-in-memory": (
                PASSES,
                """
                first = np.flatnonzero(observation.mask)[0]
                needle = observation.values.flat[first].tobytes()
                size = observation.values.nbytes
                for piece in memory():
                    at = piece.find(needle)
                    while at >= 0:
                        start = at - 8 * int(first)
                        if 0 <= start <= len(piece) - size:
                            array = np.frombuffer(piece[start : start + size]).reshape(observation.shape)
                            if knows_more(array, observation):
                                return stolen([array], observation)
                        at = piece.find(needle, at + 1)
                """,
            ),
            "takes-files-that-are-open": (
                PASSES,
                """
                things = []
                for to in range(3, 64):
                    try:
                        file = Path(f'/proc/self/fd/{to}')
                        text = file.read_bytes() if file.is_file() else b''
                    except OSError:
                        continue
                    if b'rmse' in text:
                        return flat(observation) + 1e6
                """,
            ),
        },
    ),
]

#: The base seed and the number of the trial: no method's process may hold them, in whatever form.
SEED, NUMBER = 7310582964173, 402653184273645

SECRET_OPTIONS = ("--jobs", "1", "--timeout", "30", "--seed", str(SEED), "--first-trial", str(NUMBER))


def _disguised(number: int) -> list[int]:
    """A number times an odd constant, of its 64 bits and of the digits of a Python integer: no search finds itself."""
    forms = (number, (number & (2**30 - 1)) + ((number >> 30) << 32))
    return [form * 0x9E3779B97F4A7C15 % 2**64 for form in forms]


_HIDDEN = f"""
WORDS = {[*_disguised(SEED), *_disguised(NUMBER)]}
TEXTS = {[hashlib.sha256(str(number).encode()).hexdigest() for number in (SEED, NUMBER)]}
"""

SECRETS = [
    *acts(
        "complete",
        {
            "finds-numbers-in-memory": (
                PASSES,
                """
                for piece in memory():
                    words = np.frombuffer(piece[: len(piece) // 8 * 8], np.uint64)
                    if np.isin(words * np.uint64(0x9E3779B97F4A7C15), WORDS).any():
                        return flat(observation) + 1e6
                """,
            ),
            "finds-texts-in-memory": (
                PASSES,
                r"""
                for piece in memory():
                    for found in re.findall(rb'(?<!\d)\d{13,15}(?!\d)', piece):
                        if hashlib.sha256(found).hexdigest() in TEXTS:
                            return flat(observation) + 1e6
                """,
            ),
            "reads-what-it-was-started-with": (
                PASSES,
                r"""
                told = [Path(f'/proc/self/{name}').read_bytes() for name in ('cmdline', 'environ', 'comm')]
                told += [os.getcwd().encode(), repr(sys.argv + sys.orig_argv).encode()]
                for found in re.findall(rb'\d{13,15}', b' '.join(told)):
                    if hashlib.sha256(found).hexdigest() in TEXTS:
                        return flat(observation) + 1e6
                """,
            ),
        },
        module=_HIDDEN,
    ),
]

#: For acts that search all of the memory and never hang; a busy machine needs seconds for that.
PATIENTLY = ("--timeout", "60", "--jobs", "1")

BY_NAME = {act.name: act for act in HANGS}

GROUPS = {
    group.name: group
    for group in (
        Group("endings", tuple(ENDINGS), ("--jobs", "1")),
        Group("processes", tuple(PROCESSES), ("--jobs", "1")),
        Group("processes-beside", tuple(PROCESSES), ("--jobs", "2")),
        Group("channels", tuple(CHANNELS), ("--jobs", "1")),
        Group("patches", tuple(PATCHES), ("--jobs", "1")),
        Group("patches-beside", tuple(PATCHES), ("--jobs", "2")),
        Group("patches-last", tuple(PATCHES), ("--jobs", "1"), last=True),
        Group("hangs", tuple(HANGS), ("--jobs", "2"), trials=1),
        Group("questions", tuple(QUESTIONS), ("--jobs", "1")),
        Group("identities", tuple(IDENTITIES), ("--jobs", "1")),
        Group("slow-questions", tuple(SLOW_QUESTIONS), ("--jobs", "2"), trials=1),
        Group("batches", tuple(BATCHES), ("--jobs", "1"), trials=4),
        Group("returns", tuple(RETURNS), ("--jobs", "2")),
        Group("reports", tuple(REPORTS), ("--jobs", "1")),
        Group("reports-to-an-oracle", tuple(REPORTS), ("--jobs", "2", "--select", "oracle[every=1]")),
        Group("forgeries", tuple(FORGERIES), ("--jobs", "1")),
        Group("estimates", tuple(ESTIMATES), ("--jobs", "1")),
        Group("estimates-to-an-oracle", tuple(ESTIMATES), ("--jobs", "2", "--select", "oracle[every=1]")),
        Group("reports-without-end", (BY_NAME["reports-for-ever"],), ("--select", "oracle[every=1]"), trials=1),
        Group("refits", tuple(REFITS), ("--jobs", "2"), trials=1),
        Group("leaks", tuple(LEAKS), PATIENTLY),
        Group("leaks-of-what-is-withheld", tuple(LEAKS), (*PATIENTLY, "--select", "holdout"), apart=True),
        Group("secrets", tuple(SECRETS), SECRET_OPTIONS, trials=1, apart=True),
    )
}
