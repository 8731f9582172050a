//! The calls to the kernel that no command of an agent needs and that lead out of a wall; it knows
//! no files and no hosts.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};

/// What a wall lets through beside files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sockets {
    /// Sockets of the internet protocols: only where they lead nowhere but to the house's proxy.
    pub(super) internet: bool,
    /// Sockets with a name in the file system, which other programs of the person listen on.
    pub(super) local: bool,
}

/// Mounts, namespaces, other processes, the kernel itself, and ways around this filter.
const REFUSED: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_kexec_file_load,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// The same call has a second number for programs of the x32 kind.
#[cfg(target_arch = "x86_64")]
const SECOND_NUMBERS: &[i64] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const SECOND_NUMBERS: &[i64] = &[0];

/// What is written to a terminal as if its user had typed it.
const TYPED: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

/// New namespaces, asked for by the call that makes a process.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Closes the calls for this thread and what it starts, for good.
pub(super) fn close(sockets: Sockets) -> Result<(), String> {
    for program in programs(sockets).map_err(|error| error.to_string())? {
        apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn programs(sockets: Sockets) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut refuse = |call: i64, rules: &[SeccompRule]| {
        for second in SECOND_NUMBERS {
            refused.insert(call | second, rules.to_vec());
        }
    };
    for call in REFUSED.iter().chain(REFUSED_HERE) {
        refuse(*call, &[]);
    }
    let mut typed = Vec::new();
    for request in TYPED {
        typed.push(SeccompRule::new(vec![SeccompCondition::new(1, Dword, Eq, request)?])?);
    }
    refuse(libc::SYS_ioctl, &typed);
    let mut spaces = Vec::new();
    for bit in (0..32).map(|bit| 1_i32 << bit).filter(|bit| NAMESPACES & bit != 0) {
        let bit = u64::from(bit.cast_unsigned());
        spaces.push(SeccompRule::new(vec![SeccompCondition::new(0, Dword, MaskedEq(bit), bit)?])?);
    }
    refuse(libc::SYS_clone, &spaces);
    // Everything but pairs of a process's own, and what was let through.
    let mut families = vec![libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG];
    families.extend([libc::AF_KEY, libc::AF_BLUETOOTH, libc::AF_CAN, libc::AF_TIPC, libc::AF_XDP]);
    if sockets.internet {
        // The runtimes ask the kernel by it for the addresses of this machine, and get the wall's.
        families.remove(0);
    } else {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    if !sockets.local {
        families.push(libc::AF_UNIX);
    }
    let mut kinds = Vec::new();
    for family in families {
        let family = u64::from(family.cast_unsigned());
        kinds.push(SeccompRule::new(vec![SeccompCondition::new(0, Dword, Eq, family)?])?);
    }
    refuse(libc::SYS_socket, &kinds);

    // The C library makes processes by the older call where this one is unknown, and that one can
    // be looked into.
    let unknown: BTreeMap<i64, Vec<SeccompRule>> =
        SECOND_NUMBERS.iter().map(|second| (libc::SYS_clone3 | second, Vec::new())).collect();
    Ok([compile(refused, libc::EPERM)?, compile(unknown, libc::ENOSYS)?])
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    errno: i32,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, ARCH.try_into()?)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_fit_into_the_kernel() {
        for internet in [false, true] {
            for local in [false, true] {
                let all = programs(Sockets { internet, local }).unwrap();
                assert!(all.iter().all(|program| program.len() < 4_096));
            }
        }
    }
}
