//! The attempts themselves, as scripts that a command of an agent could be; each says `GOT` where it
//! got what it must not get.

/// One attempt.
#[derive(Debug)]
pub(crate) struct Case {
    /// Its number in the list, or a word for one beyond it.
    pub(crate) id: &'static str,
    /// What is tried.
    pub(crate) what: &'static str,
    /// The script.
    pub(crate) script: &'static str,
    /// How it begins.
    pub(crate) start: Start,
}

/// Where and how an attempt begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// In the workspace.
    Workspace,
    /// In a directory outside of it, as if a model had chosen that.
    Outside,
    /// With small limits.
    Small,
    /// It leaves something that is to be gone afterwards.
    Leaving,
    /// Only where tmux runs.
    Tmux,
}

const fn case(id: &'static str, what: &'static str, script: &'static str) -> Case {
    Case { id, what, script, start: Start::Workspace }
}

const fn starting(
    start: Start,
    id: &'static str,
    what: &'static str,
    script: &'static str,
) -> Case {
    Case { id, what, script, start }
}

/// All of them.
pub(crate) const CASES: &[Case] = &[
    starting(Start::Outside, "2", "write where the model chose to begin", "echo x > here && echo GOT"),
    case("3", "write `../`", "echo x > ../escaped && echo GOT; echo x > ../out/escaped && echo GOT"),
    case("4a", "write an absolute path", "echo x > $OUT/file && echo GOT"),
    case("4b", "write in `/tmp` so that others see it", "echo x > /tmp/aion-check-$SIBLING"),
    case("5", "write `~/.bashrc`", "echo evil >> ~/.bashrc && echo GOT"),
    case(
        "6",
        "write `~/.ssh/authorized_keys`",
        "echo key > ~/.ssh/authorized_keys && echo GOT; rm -rf ~/.ssh; mv ~/.ssh ~/x",
    ),
    case(
        "7a",
        "make settings that do not exist yet",
        "for d in .claude .codex .gemini .cursor .vscode .idea .aion; do
           mkdir -p $d; echo '{}' > $d/settings.json; echo x > $d/config.toml; done; true",
    ),
    case(
        "7b",
        "make `.mcp.json`, also by renaming and by a link",
        "echo '{}' > m; mv -T m .mcp.json; rm -rf .mcp.json; ln -s $WS/src .mcp.json; \
         ln -sfn $WS/src .mcp.json; cp src/main.rs .mcp.json; true",
    ),
    case(
        "7c",
        "write our own data and settings",
        "echo x > $DATA/token && echo GOT; mkdir -p ~/.config/aion && echo GOT",
    ),
    case("8", "write `.git/hooks/*`", "printf '#!/bin/sh\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit"),
    case(
        "9a",
        "`git config` of `core.fsmonitor`, `core.sshCommand`, `core.hooksPath`",
        "git config core.fsmonitor /tmp/evil; git config core.sshCommand evil; \
         git config core.hooksPath src; git config --global core.pager evil",
    ),
    case(
        "9b",
        "put another directory in the place of `.git`",
        "mv .git g && mkdir .git && cp -r g/. .git && echo '[core] fsmonitor=evil' >> .git/config; \
         rm -rf g; true",
    ),
    case(
        "9d",
        "put a link in the place of `.git`",
        "mkdir -p fake && cp -r .git/. fake && echo '[core] fsmonitor=evil' >> fake/config; \
         mv .git g; ln -s fake .git; true",
    ),
    case("9c", "`.git/commondir`: let git read elsewhere", "mkdir -p fake; echo ../fake > .git/commondir; sleep 0.3; cat .git/commondir >&2"),
    case(
        "10a",
        "write through a link in the workspace",
        "ln -sfn $OUT way; echo x > way/file && echo GOT; ln -sfn ~/.bashrc rc; echo x >> rc && echo GOT",
    ),
    case(
        "10b",
        "read through a link in the workspace",
        "ln -sfn ~/.ssh/id_ed25519 key; cat key; ln -sfn $DATA data; cat data/token; ln ~/.netrc n && cat n",
    ),
    case(
        "11",
        "a link that changes while it is used, 10,000 times",
        "python3 - <<'E'
import os
ws, out, home = os.environ['WS'], os.environ['OUT'], os.environ['HOME']
if os.fork() == 0:
    for i in range(10000):
        try:
            os.symlink([ws + '/src/a', out + '/raced', home + '/.ssh/id_ed25519'][i % 3], 'race.n')
            os.rename('race.n', 'race')
        except OSError: pass
    os._exit(0)
last = None
for i in range(10000):
    try:
        with open('race', 'r+' if i % 2 else 'w') as f: f.write('x')
    except OSError as e:
        if e.errno in (1, 13, 30): last = e
    try:
        if 'CANARY' in open('race').read(): print('GOT')
    except OSError: pass
os.wait(); print(last)
E",
    ),
    case(
        "14a",
        "mount, and namespaces with more rights",
        "unshare -Ur true && echo GOT; unshare -Urm mount --bind / /mnt && echo GOT; \
         mount --bind $OUT $WS/src && echo GOT; umount ~/.ssh && echo GOT; true",
    ),
    case(
        "14b",
        "namespaces by the calls themselves",
        "python3 - <<'E'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name, number in (('unshare', 272), ('setns', 308), ('mount', 165), ('open_tree', 428), ('fsopen', 430),
                     ('pivot_root', 155), ('chroot', 161), ('clone', 56)):
    number = number if os.uname().machine == 'x86_64' else {'unshare': 97, 'setns': 268, 'mount': 40,
        'open_tree': 428, 'fsopen': 430, 'pivot_root': 41, 'chroot': 51, 'clone': 220}[name]
    first = 0x10000000 | 17 if name in ('unshare', 'clone') else b'/tmp'
    r = libc.syscall(number, first, b'/tmp', 0, 0, 0)
    if r == 0 and name == 'clone': os._exit(0)
    print('GOT' if r >= 0 else 'refused', name, os.strerror(ctypes.get_errno()))
E",
    ),
    case(
        "16",
        "`/proc/self/root`, `/proc/1/root`, `/proc/*/cwd`",
        "cat /proc/self/root$DATA/token; cat /proc/1/root$DATA/token; for p in /proc/[0-9]*; do \
         cat $p/root$DATA/token; echo x > $p/root$OUT/file && echo GOT; cat $p/cwd/data/token; done 2>&1 | \
         grep -E 'CANARY|GOT|Permission|Read-only' | sort | uniq -c | sort -rn | head -5",
    ),
    case(
        "17a",
        "`/proc/PID/environ` of the house and of others",
        "cat /proc/$HOUSE/environ /proc/$SIBLING/environ; for p in /proc/[0-9]*/environ; do tr '\\0' '\\n' < $p; done 2>/dev/null | grep SECRET=",
    ),
    case("17b", "`/proc/PID/mem`, `maps` and `fd` of others", "head -c 1 /proc/$HOUSE/maps && echo GOT; python3 -c \"open('/proc/$SIBLING/mem','r+b')\" && echo GOT; readlink /proc/$HOUSE/fd/1 && echo GOT; true"),
    case(
        "18",
        "ptrace, `process_vm_readv`, `pidfd_getfd`",
        "python3 - <<'E'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == 'x86_64'
for pid in (int(os.environ['HOUSE']), int(os.environ['SIBLING']), os.getppid()):
    for name, number in (('ptrace', 101 if x86 else 117), ('process_vm_readv', 310 if x86 else 270),
                         ('kcmp', 312 if x86 else 272)):
        r = libc.syscall(number, 16 if name == 'ptrace' else pid, pid, 0, 0, 0, 0)
        print('GOT' if r >= 0 else 'refused', name, os.strerror(ctypes.get_errno()))
E",
    ),
    case("19", "signals to the house and to others", "kill -0 $HOUSE && echo GOT; kill -9 $SIBLING && echo GOT; kill -9 -$SIBLING; true"),
    case("20", "the network with an empty list", "python3 -c \"import socket; socket.create_connection(('1.1.1.1', 53), 2)\" && echo GOT; true"),
    case(
        "21",
        "DNS: UDP 53, and names from inside",
        "python3 - <<'E'
import socket
for kind in (socket.AF_INET, socket.AF_INET6):
    try:
        s = socket.socket(kind, socket.SOCK_DGRAM)
        s.sendto(b'x' * 30, ('1.1.1.1' if kind == socket.AF_INET else '2606:4700:4700::1111', 53)); print('GOT', kind)
    except OSError as e: print(e)
try: socket.getaddrinfo('example.org', 443); print('GOT')
except OSError as e: print(e)
E",
    ),
    case(
        "22",
        "a port of this machine, by every spelling of its address",
        "python3 - <<'E'
import os, socket
for host in ('127.0.0.1', '0.0.0.0', '127.1', '2130706433', '0x7f000001', '::1', '::ffff:127.0.0.1', 'localhost'):
    try: socket.create_connection((host, int(os.environ['PORT'])), 2); print('GOT', host)
    except OSError as e: print(host, e)
E",
    ),
    starting(
        Start::Tmux,
        "27",
        "`tmux send-keys` into another's pane",
        "tmux -S $TMUX_SOCKET send-keys -t person evil Enter && echo GOT; true",
    ),
    case(
        "28",
        "`TIOCSTI`, `TIOCLINUX`",
        "python3 - <<'E'
import fcntl, os, pty
try: terminal = pty.openpty()[1]
except OSError: terminal = 1
for number in (0x5412, 0x541C):
    try: fcntl.ioctl(terminal, number, b'x'); print('GOT')
    except OSError as e: print(e)
try: open('/dev/tty', 'w'); print('GOT')
except OSError as e: print(e)
E",
    ),
    starting(
        Start::Leaving,
        "29a",
        "a process that outlives the turn: setsid, double fork, nohup",
        "(setsid nohup sh -c 'sleep 0.5; echo x > $WS/survivor; exec sleep 999' >/dev/null 2>&1 &) ; \
         python3 -c \"
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.5); open(os.environ['WS'] + '/survivor', 'w'); time.sleep(999)
\"; true",
    ),
    case(
        "29b",
        "let others start it: cron, at, systemd, D-Bus",
        "echo '* * * * * evil' | crontab - && echo GOT; echo evil | at now && echo GOT; \
         systemd-run --user true && echo GOT; mkdir -p ~/.config/systemd/user && echo GOT; \
         (: >> /etc/cron.d/aion-check) && echo GOT; true",
    ),
    starting(
        Start::Small,
        "30a",
        // Bounded: a limit that does not hold must not take the machine that finds it out.
        "more processes than allowed",
        "for i in $(seq 900); do sleep 5 & done 2>&1 | head -3; wait",
    ),
    starting(Start::Small, "30b", "more memory than there is", "python3 -c \"import mmap; mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); print('GOT')\""),
    starting(Start::Small, "30c", "a file without an end", "trap '' XFSZ; head -c 200M /dev/zero > big; test $(stat -c %s big) -gt 70000000 && echo GOT; rm -f big; true"),
    starting(
        Start::Small,
        "30d",
        // Bounded as well: two thousand of them, which end by themselves.
        "processes that double faster than they are looked for",
        "f() { if [ $1 -lt 10 ]; then f $(($1+1)) & f $(($1+1)) & wait; else sleep 3; echo x >> all; fi; }; \
         f 0 2>&1 | head -3; test $(wc -l < all) -gt 1000 && echo GOT; rm -f all; true",
    ),
    case("36a", "read the house's data and keys", "cat $DATA/token; ls $DATA; cat ~/.ssh/id_ed25519 ~/.netrc ~/.config/gh/hosts.yml"),
    case("36b", "read and write another team's workspace", "cat $OTHER/work.txt; echo x > $OTHER/work.txt; rm -rf $OTHER/work.txt"),
    case("36c", "open what is closed: chmod, rename", "chmod 777 ~/.ssh ~/.netrc $DATA; mv $DATA ${DATA}2; cat ~/.ssh/id_ed25519 ~/.netrc $DATA/token"),
    case(
        "38",
        "a program that runs as its owner, file capabilities",
        "grep -q 'NoNewPrivs:.1' /proc/self/status || echo GOT; $OUT/id-as-owner -u > me; id -u > you; \
         cmp -s me you || echo GOT; grep CapEff /proc/self/status | grep -q 0000000000000000 || echo GOT; (: >> /etc/passwd) && echo GOT; true",
    ),
    case("d1", "devices and the kernel's switches", "dd if=/dev/mem count=1 2>&1; dd if=/dev/kmsg count=1 2>&1; ls /dev/sd* /dev/vd* 2>&1 | head -2; head -c 1 /dev/vda && echo GOT; (: >> /proc/sys/kernel/core_pattern) && echo GOT; (: >> /proc/sysrq-trigger) && echo GOT; (: >> /sys/kernel/uevent_helper) && echo GOT; true"),
    case(
        "d7",
        "the mode of a file of yours outside of the workspace",
        "chmod 640 $OUT/file && echo GOT; chmod 644 $OUT/file; touch -d 2001-01-01 $OUT/file && echo GOT; true",
    ),
    case("d2", "a socket in the file system that another program listens on", "python3 - <<'E'
import os, socket
try:
    s = socket.socket(socket.AF_UNIX); s.connect(os.environ['OUT'] + '/s'); print('GOT')
except OSError as e: print(e)
E"),
    case("d3", "what was left open by whoever started it", "for f in /proc/self/fd/*; do n=${f##*/}; [ $n -le 2 ] || readlink $f; done | grep -vE '^/proc|pipe:|^$' | grep -E \"$WS|$DATA|socket|$OUT\" && echo GOT; cd /proc/self/fd; for n in 3 4 5 6 7 8 9; do cat $n/../data/token; done; cat /dev/fd/3/../../data/token"),
    case(
        "d4",
        "ways around the filter: io_uring, keyctl, bpf, userfaultfd, perf",
        "python3 - <<'E'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == 'x86_64'
for name, number in (('io_uring_setup', 425), ('keyctl', 250 if x86 else 219), ('bpf', 321 if x86 else 280),
                     ('userfaultfd', 323 if x86 else 282), ('perf_event_open', 298 if x86 else 241),
                     ('add_key', 248 if x86 else 217), ('open_by_handle_at', 304 if x86 else 265)):
    r = libc.syscall(number, 1, 0, 0, 0, 0)
    print('GOT' if r >= 0 else 'refused', name, os.strerror(ctypes.get_errno()))
if x86:
    r = libc.syscall(0x40000000 | 272, 0x10000000)
    print('GOT' if r >= 0 else 'refused', 'x32 unshare', os.strerror(ctypes.get_errno()))
E",
    ),
    case("d5", "raw packets, netlink, vsock", "python3 - <<'E'
import socket
for f, k in ((17, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW), (40, socket.SOCK_STREAM), (38, 5)):
    try: socket.socket(f, k); print('GOT', f)
    except OSError as e: print(e)
E"),
    case("d6", "the abstract sockets of others", "python3 - <<'E'
import os, socket
try:
    s = socket.socket(socket.AF_UNIX); s.connect('\\0aion-check-' + os.environ['HOUSE']); print('GOT')
except OSError as e: print(e)
E"),
];

/// What a wall is known not to hold, with the reason.
pub(crate) const KNOWN: &[(&str, &str, &str)] =
    &[("landlock", "d7", "Landlock knows no rights to modes; of closed places they are put back")];

/// What a command leaves in a shell is not there for the next one.
pub(crate) const CARRIES: (&str, &str) = (
    "export PATH=/evil:$PATH BASH_ENV=/evil PROMPT_COMMAND=evil; alias ls=evil; cat() { evil; }; \
     export -f cat; trap evil EXIT DEBUG 2>/dev/null; cd src",
    "env | grep -i evil && echo GOT; alias | grep evil && echo GOT; declare -F | grep cat && echo GOT; \
     trap -p | grep evil && echo GOT; [ $PWD = $WS ] || echo GOT; true",
);
