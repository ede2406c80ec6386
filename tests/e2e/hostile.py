"""Attacks of a hostile build, as data: a Python script each, which runs inside a sandbox.

A script tries one way out after another with ``attempt``. It prints ``BREACH`` for what came off, ``held`` for what
did not, and ``END`` when it has tried everything, so that a script that broke is not taken for a sandbox that held.
"""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = '''
import ctypes, glob, hashlib, json, os, pathlib, shutil, signal, socket, stat, subprocess, sys, time

world = json.load(open("world.json"))
libc = ctypes.CDLL(None, use_errno=True)


def attempt(what, action, *args):
    try:
        result = action(*args)
    except Exception as error:
        print(f"held {what}: {type(error).__name__}: {error}", flush=True)
    else:
        print(f"BREACH {what}: {result!r:.300}" if result else f"held {what}: nothing", flush=True)


def call(name, *args):
    """Call a function of libc; True when it succeeds."""
    ctypes.set_errno(0)
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def has_canary(path):
    return world["canary"].encode() in pathlib.Path(path).read_bytes()


def writes(path, data="x"):
    with open(path, "w") as file:
        file.write(data)
    return True
'''

END = '\nprint("END")\n'


@dataclass(frozen=True)
class Attack:
    """One kind of attack.

    :param harmless: it does no harm where nothing confines it, so it is also run there, where it must come off:
        that is what shows that the test can fail.
    """

    name: str
    code: str
    harmless: bool = False

    @property
    def script(self) -> str:
        return PRELUDE + self.code + END


SECRETS = Attack(
    "secrets in the environment",
    """
attempt("os.environ", lambda: [n for n, v in os.environ.items() if world["canary"] in v])
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/task/*/environ"):
    attempt(path, has_canary, path)
attempt("the shell's", lambda: world["canary"] in subprocess.run(["env"], capture_output=True, text=True).stdout)
""",
    harmless=True,
)

KEYS = Attack(
    "keys of the session",
    """
attempt("/proc/keys", lambda: world["key"] in open("/proc/keys").read())
number = {"x86_64": 249, "aarch64": 218}[os.uname().machine]
libc.syscall.restype = ctypes.c_long
attempt("request_key", lambda: call("syscall", number, b"user", world["key"].encode(), None, 0))
""",
    harmless=True,
)

TOKEN = Attack(
    "token file",
    """
for path in world["tokens"]:
    attempt(path, has_canary, path)
    attempt("by /proc/1/root", has_canary, "/proc/1/root" + path)
    attempt("by /proc/self/cwd", has_canary, "/proc/self/cwd/../../../../../.." + path)
""",
    harmless=True,
)

HOST_FILES = Attack(
    "files of the host",
    """
for path in world["canaries"]:
    attempt("read " + path, has_canary, path)
    attempt("see " + path, os.path.exists, path)
for folder in world["folders"]:
    attempt("list " + folder, lambda: set(os.listdir(folder)) & set(world["names"]))
for path, digest in world["digests"].items():
    attempt("the host's " + path, lambda: hashlib.sha256(open(path, "rb").read()).hexdigest() == digest)
attempt("beside the work folder", lambda: [p for p in glob.glob("/work/../*/*") if p in world["canaries"]])
""",
    harmless=True,
)

NETWORK = Attack(
    "network",
    """
for address in world["listeners"]:
    attempt(f"tcp {address}", lambda: socket.create_connection(address, 1))
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.sendto(b"x", tuple(world["listeners"][0]))
        return s.getsockname()[0] not in ("0.0.0.0", "127.0.0.1")
attempt("udp", datagram)
attempt("an interface", lambda: [i for _, i in socket.if_nameindex() if i not in ("lo", "tunl0", "sit0", "ip6tnl0")])
""",
    harmless=True,
)

ABSTRACT = Attack(
    "abstract unix socket",
    """
def connect():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\\0" + world["abstract"])
        return True
attempt("connect", connect)
attempt("/proc/net/unix", lambda: world["abstract"] in open("/proc/net/unix").read())
""",
    harmless=True,
)

ENGINE_SOCKETS = Attack(
    "sockets of engines",
    """
def connect(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(2)
        s.connect(path)
        return True
for path in world["sockets"]:
    attempt("connect " + path, connect, path)
    attempt("see " + path, os.path.exists, path)
for root in ("/run", "/var/run", "/tmp", "/var/tmp"):
    found = [p for depth in ("/*", "/*/*", "/*/*/*") for p in glob.glob(root + depth)]
    attempt("sockets in " + root, lambda: [p for p in found if stat.S_ISSOCK(os.lstat(p).st_mode)])
attempt("DOCKER_HOST", lambda: [n for n in os.environ if "DOCKER" in n or "CONTAINER_HOST" in n])
""",
    harmless=True,
)

OUTSIDE = Attack(
    "write outside the work folder",
    """
for folder in ("/", "/usr", "/usr/bin", "/usr/lib", "/bin", "/lib", "/etc", "/opt", "/home", "/root", "/var", "/sys",
               "/proc", "/mnt", "/work/..", *world["folders"]):
    attempt(folder, writes, os.path.join(folder, world["name"]))
    attempt("folder in " + folder, lambda: os.mkdir(os.path.join(folder, world["name"] + ".d")) or True)
for path in world["canaries"]:
    attempt("overwrite " + path, writes, path)
    attempt("by /proc/1/root", writes, "/proc/1/root" + path)
for path in ("/bin/sh", sys.executable, "/usr/bin/env"):
    attempt("open " + path, os.open, path, os.O_WRONLY)
    attempt("chmod " + path, lambda: os.chmod(path, 0o777) or True)
    attempt("unlink " + path, lambda: os.unlink(path) or True)
""",
)

OUTSIDE_CONTROL = Attack(
    "write to a folder of the host",
    """
for folder in world["folders"][:1]:
    attempt(folder, writes, os.path.join(folder, world["name"]))
for path in world["canaries"][:1]:
    attempt("append to " + path, lambda: open(path, "a").write(" "))
""",
    harmless=True,
)

TOOLCHAIN = Attack(
    "poison the toolchain",
    """
for root in world["mounts"]:
    tool = root + "/bin/tool"
    assert open(tool).read() == "honest", "the mount is not there"
    attempt("write " + tool, writes, tool)
    attempt("append " + tool, lambda: open(tool, "a").write("x"))
    attempt("new file", writes, root + "/bin/new")
    attempt("no-name file", os.open, root, os.O_TMPFILE | os.O_WRONLY)
    attempt("unlink", lambda: os.unlink(tool) or True)
    attempt("rename", lambda: os.rename(tool, tool + "2") or True)
    attempt("rename the mount", lambda: os.rename(root, root + "2") or True)
    attempt("chmod", lambda: os.chmod(tool, 0o777) or True)
    attempt("chmod the folder", lambda: os.chmod(root, 0o777) or True)
    attempt("chown", lambda: os.chown(tool, 1, 1) or True)
    attempt("utime", lambda: os.utime(tool, (1, 1)) or True)
    attempt("setxattr", lambda: os.setxattr(tool, "user.x", b"x") or True)
    attempt("hard link into the work folder", lambda: os.link(tool, "/work/tool") or True)
    attempt("truncate", lambda: os.truncate(tool, 0) or True)
    attempt("by its file descriptor", lambda: os.open(f"/proc/self/fd/{os.open(tool, os.O_RDONLY)}", os.O_WRONLY))
    MS_REMOUNT, MS_BIND = 32, 4096
    attempt("remount", call, "mount", None, root.encode(), None, MS_REMOUNT | MS_BIND, None)
    attempt("mount over", call, "mount", b"/work", root.encode(), None, MS_BIND, None)
    attempt("umount", call, "umount2", root.encode(), 2)
""",
)

STORE = Attack(
    "store and cache",
    """
for path in world["store"]:
    attempt("see " + path, os.path.exists, path)
    attempt("write " + path, writes, path + "/" + world["name"])
attempt("mountinfo", lambda: [l for l in open("/proc/self/mountinfo") if world["store"][0] in l])
""",
    harmless=True,
)

PRIVILEGES = {
    "be somebody else": """
attempt("setuid 0 from another user", lambda: os.getuid() != 0 and (os.setuid(0) or True))
attempt("setuid 1234", lambda: os.setuid(1234) or True)
attempt("setgroups", lambda: os.setgroups([0, 1, 2]) or True)
status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
attempt("capabilities", lambda: any(int(status[s], 16) for s in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh")))
attempt("privileges may be gained", lambda: status["NoNewPrivs"].strip() != "1")
""",
    "setuid program": """
shutil.copy("/bin/sh", "/work/sh")
os.chmod("/work/sh", 0o4755)
attempt("chmod u+s and run", lambda: os.getuid() != 0 and (
    subprocess.run(["/work/sh", "-p", "-c", "id -u"], capture_output=True, text=True).stdout.strip() == "0"))
for program in ("su", "sudo", "mount", "newgrp", "pkexec"):
    path = shutil.which(program)
    if path and program != "mount":
        attempt(program, lambda: subprocess.run(
            [path, *(["-c", "id -u"] if program == "su" else ["-n", "id", "-u"])], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=3).stdout.strip() == "0" and os.getuid() != 0)
""",
    "mount": """
os.makedirs("/work/m", exist_ok=True)
for kind in (b"tmpfs", b"proc", b"sysfs", b"cgroup", b"cgroup2", b"devtmpfs", b"overlay"):
    attempt("mount " + kind.decode(), call, "mount", b"x", b"/work/m", kind, 0, b"")
attempt("bind", call, "mount", b"/", b"/work/m", None, 4096 | 16384, None)
attempt("remount /", call, "mount", None, b"/", None, 32 | 4096, None)
attempt("remount /proc", call, "mount", None, b"/proc", None, 32 | 4096, None)
attempt("umount /proc", call, "umount2", b"/proc", 2)
attempt("pivot_root", call, "syscall", {"x86_64": 155, "aarch64": 41}[os.uname().machine], b"/work", b"/work/m")
attempt("chroot", lambda: os.chroot("/work") or True)
""",
    "namespaces of its own": """
NEWUSER, NEWNS, NEWCGROUP, NEWNET, NEWPID = 0x10000000, 0x20000, 0x2000000, 0x40000000, 0x20000000
for name, flag in (("cgroup", NEWCGROUP), ("mount", NEWNS), ("net", NEWNET), ("pid", NEWPID)):
    attempt("unshare " + name, call, "unshare", flag)
attempt("unshare user", call, "unshare", NEWUSER)
os.makedirs("/work/cg", exist_ok=True)
def controllers():
    call("unshare", NEWNS | NEWCGROUP)
    return True
attempt("more", controllers)
for kind, option in ((b"cgroup", b"memory"), (b"cgroup", b"freezer"), (b"cgroup2", b"")):
    attempt(f"mount {kind} {option}", call, "mount", b"x", b"/work/cg", kind, 0, option)
for path in glob.glob("/proc/1/ns/*"):
    name = os.path.basename(path)
    def enter():
        if os.readlink(path) == os.readlink(f"/proc/self/ns/{name}"):
            return False
        call("setns", os.open(path, os.O_RDONLY), 0)
        return True
    attempt("setns " + name, enter)
""",
    "its own limits": """
for path in glob.glob("/sys/fs/cgroup/**/memory*limit*", recursive=True) + glob.glob(
        "/sys/fs/cgroup/**/memory.max", recursive=True) + glob.glob("/sys/fs/cgroup/**/pids.max", recursive=True):
    attempt("write " + path, writes, path, "max" if path.endswith("max") else "-1")
for path in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True)[:50]:
    attempt("join " + path, writes, path, "0")
import resource
for name in ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_AS"):
    number = getattr(resource, name)
    if resource.getrlimit(number)[1] != -1:
        attempt(name, lambda: resource.setrlimit(number, (-1, -1)) or True)
attempt("out-of-memory score", lambda: open("/proc/self/oom_score_adj", "w").write("-1000") and
        int(open("/proc/self/oom_score_adj").read()) == -1000)
attempt("priority", lambda: os.nice(-5) < 0)
attempt("real-time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)) or True)
""",
    "trace and kill others": """
attempt("see anybody of the host", lambda: [p for p in glob.glob("/proc/[0-9]*/cmdline") if world["argv"] in open(p).read()])
def mine(pid):
    return world["argv"] not in open(f"/proc/{pid}/cmdline").read()
def trace(pid):
    if mine(pid): return False
    call("ptrace", 16, pid, 0, 0)
    return True
def kill(pid):
    if mine(pid): return False
    os.kill(pid, signal.SIGKILL)
    return True
attempt("ptrace", trace, world["bystander"])
attempt("memory", lambda: not mine(world["bystander"]) and open(f"/proc/{world['bystander']}/mem", "rb"))
attempt("kill", kill, world["bystander"])
attempt("trace pid 1", lambda: os.getppid() != 1 and call("ptrace", 16, 1, 0, 0) and
        world["argv"] in open("/proc/1/cmdline").read())
""",
    "kill everything": """
child = subprocess.Popen(["sleep", "5"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt("kill pid 1", lambda: os.kill(1, signal.SIGTERM) or False)
attempt("kill all", lambda: os.kill(-1, signal.SIGKILL) or False)
""",
    "devices": """
for kind, name, major, minor in ((stat.S_IFBLK, "disk", 8, 0), (stat.S_IFBLK, "vda", 254, 0),
        (stat.S_IFCHR, "mem", 1, 1), (stat.S_IFCHR, "kmsg", 1, 11)):
    def node():
        os.mknod("/work/" + name, kind | 0o666, os.makedev(major, minor))
        return os.open("/work/" + name, os.O_RDONLY)
    attempt("mknod " + name, node)
for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kvm", "/dev/fuse", "/dev/sda", "/dev/vda", "/dev/loop0",
        "/dev/kmsg", "/dev/net/tun", "/dev/nvidia0", "/proc/kcore", "/proc/kmsg", "/proc/kallsyms.x"):
    attempt("open " + path, lambda: os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1))
""",
    "kernel settings": """
PASSED = {"self", "thread-self", "pressure", *map(str, range(100_000))}
for folder, folders, names in [*os.walk("/sys"), *os.walk("/proc")]:
    if folder.startswith("/proc/") and folder.split("/")[2] in PASSED:
        continue
    for name in names:
        path = folder + "/" + name
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            print("BREACH writable", path)
        except OSError:
            pass
attempt("core_pattern", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
""",
    "kernel calls": """
x86 = os.uname().machine == "x86_64"
libc.syscall.restype = ctypes.c_long
ROOT = os.open("/", os.O_RDONLY)
HANDLE = ctypes.create_string_buffer(bytes([8, 0, 0, 0, 1, 0, 0, 0, 2]) + bytes(7))
for name, number, args in (
    ("reboot", 169 if x86 else 142, (0, 0, 0, 0)),
    ("init_module", 175 if x86 else 105, (b"", 0, b"")),
    ("bpf", 321 if x86 else 280, (5, ctypes.create_string_buffer(128), 128)),
    ("kexec_load", 246 if x86 else 104, (0, 0, 0, 0)),
    ("acct", 163 if x86 else 89, (b"/work/acct",)),
    ("swapon", 167 if x86 else 224, (b"/work/swap", 0)),
    ("open_by_handle_at", 304 if x86 else 265, (ROOT, HANDLE, 0)),
    ("syslog", 103 if x86 else 116, (9, None, 0)),
):
    attempt(name, lambda: call("syscall", number, *args))
attempt("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()) or True)
attempt("hostname", lambda: socket.sethostname("owned") or True)
""",
    "the terminal": """
import fcntl, termios
attempt("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))
for fd in (0, 1, 2):
    attempt(f"TIOCSTI {fd}", lambda: fcntl.ioctl(fd, termios.TIOCSTI, b"x") or True)
attempt("stdin", lambda: os.read(0, 1))
attempt("open files", lambda: [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
    if int(n) > 2 and os.path.exists(f"/proc/self/fd/{n}")
    and not os.readlink(f"/proc/self/fd/{n}").startswith("/proc/")])
""",
}

ISOLATION = (
    SECRETS,
    KEYS,
    TOKEN,
    HOST_FILES,
    NETWORK,
    ABSTRACT,
    ENGINE_SOCKETS,
    OUTSIDE,
    OUTSIDE_CONTROL,
    TOOLCHAIN,
    STORE,
    *(Attack(name, code) for name, code in PRIVILEGES.items()),
)
