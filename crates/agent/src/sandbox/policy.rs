//! What a command may write, what it may not even read, and what stays as it is; it closes nothing
//! by itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::placeholder::{is_held_empty, release};
use super::repository::Repository;

/// What is closed in a home directory: keys, signed-in programs, agents' settings, histories.
pub const CLOSED_IN_HOME: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".oci",
    ".fly",
    ".heroku",
    ".age",
    ".netrc",
    ".authinfo",
    ".git-credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".s3cfg",
    ".boto",
    ".databrickscfg",
    ".snowflake",
    ".vault-token",
    ".terraform.d",
    ".terraformrc",
    ".ngrok2",
    ".1password",
    ".password-store",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".cursor",
    ".qwen",
    ".copilot",
    ".continue",
    ".aider.conf.yml",
    ".opencode",
    ".kiro",
    ".amp",
    ".windsurf",
    ".goose",
    ".config/aion",
    ".config/claude",
    ".config/codex",
    ".config/opencode",
    ".config/goose",
    ".config/github-copilot",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/containers/auth.json",
    ".config/op",
    ".config/rclone",
    ".config/doctl",
    ".config/hcloud",
    ".config/sops",
    ".config/openstack",
    ".config/ngrok",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/Code",
    ".config/Cursor",
    ".mozilla",
    ".thunderbird",
    ".local/share/aion",
    ".local/share/opencode",
    ".local/share/keyrings",
    ".local/share/fish",
    ".local/share/com.vercel.cli",
    ".local/share/goose",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
];

/// What a shell, git or a desktop runs by itself, where a home directory can be written.
const RUN_IN_HOME: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".gitconfig",
    ".config/git",
    ".config/fish",
    ".config/autostart",
    ".config/systemd",
    ".local/bin",
];

/// What an agent or an editor runs by itself in a workspace, or reads its rights from.
const SETTINGS_IN_WORKSPACE: &[&str] = &[
    ".aion",
    ".claude",
    ".codex",
    ".gemini",
    ".cursor",
    ".qwen",
    ".opencode",
    ".kiro",
    ".amp",
    ".windsurf",
    ".continue",
    ".goose",
    ".vscode",
    ".idea",
    ".zed",
    ".mcp.json",
];

/// What is closed on every machine; another user's rights close most of it anyhow.
const CLOSED_ANYWHERE: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/ssh",
    "/etc/ssl/private",
    "/var/spool/cron",
];

/// Where a machine's programs meet: sockets, and other programs' temporary files.
pub(super) const MEETING_PLACES: &[&str] = &["/run", "/tmp", "/var/tmp", "/dev/shm"];

/// What is programs' own although it lies in a meeting place.
pub(super) const PROGRAMS: &[&str] =
    &["/run/current-system", "/run/wrappers", "/run/opengl-driver"];

/// What is known of the machine before any command is.
#[derive(Clone, Debug, Default)]
pub struct Grounds {
    /// The person's home directory.
    pub home: Option<PathBuf>,
    /// What is closed beside the usual: the house's own data, settings and keys.
    pub closed: Vec<PathBuf>,
    /// What may be written beside the workspace, by the person's word.
    pub writable: Vec<PathBuf>,
}

/// The rules for one command. All paths are absolute and without links.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// May be written, all below it, too. The workspace comes first.
    pub(super) writable: Vec<PathBuf>,
    /// May not even be read.
    pub(super) closed: Vec<PathBuf>,
    /// Lies in what may be written, and stays as it is.
    pub(super) fixed: Vec<PathBuf>,
    /// Would lie in what may be written, and is kept from existing.
    pub(super) absent: Vec<PathBuf>,
    /// The same, where nothing can be put in its place: it is taken away again.
    pub(super) watched: Vec<PathBuf>,
}

impl Policy {
    /// The rules for a workspace, while others work in `others`.
    pub(super) fn of(
        workspace: &Path,
        grounds: &Grounds,
        others: &BTreeSet<PathBuf>,
    ) -> std::io::Result<Self> {
        let workspace = workspace.canonicalize()?;
        let repository = Repository::of(&workspace);
        let given = grounds.writable.iter().filter_map(|path| path.canonicalize().ok());
        let mut policy = Self { writable: vec![workspace.clone()], ..Self::default() };
        policy.writable.extend(repository.outside.iter().cloned());
        policy.writable.extend(given);
        let apart =
            |other: &&PathBuf| !other.starts_with(&workspace) && !workspace.starts_with(other);
        for path in grounds.closed.iter().chain(others.iter().filter(apart)) {
            policy.close(path);
        }
        for path in CLOSED_ANYWHERE {
            policy.close(Path::new(path));
        }
        if let Some(home) = &grounds.home {
            for name in CLOSED_IN_HOME {
                policy.close(&home.join(name));
            }
            for name in RUN_IN_HOME {
                policy.fix(home.join(name));
            }
        }
        for name in SETTINGS_IN_WORKSPACE {
            policy.fix(workspace.join(name));
        }
        policy.fixed.extend(repository.fixed);
        policy.absent.extend(repository.absent);
        policy.watched.extend(repository.watched);
        policy.settle();
        Ok(policy)
    }

    /// Closes what exists, and keeps what does not from existing where it could be made.
    fn close(&mut self, path: &Path) {
        match path.canonicalize() {
            Ok(real) if !is_held_empty(&real) => self.closed.push(real),
            Ok(_) | Err(_) if self.is_writable(path) => self.absent.push(path.to_owned()),
            Ok(_) | Err(_) => {}
        }
        // A link is closed where it leads; where it could be replaced it stays as it is.
        if self.is_writable(path) && path.is_symlink() {
            self.fixed.push(path.to_owned());
        }
    }

    /// Keeps what could be written as it is.
    fn fix(&mut self, path: PathBuf) {
        if !self.is_writable(&path) {
            return;
        }
        if exists(&path) { self.fixed.push(path) } else { self.absent.push(path) }
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|root| path.starts_with(root))
    }

    /// Every path once, and only what makes a difference.
    fn settle(&mut self) {
        let closed: BTreeSet<PathBuf> = self.closed.drain(..).collect();
        // A workspace that holds a closed place is open around it; one inside of it is open itself.
        let roots = self.writable.clone();
        self.closed = closed.into_iter().filter(|path| !roots.contains(path)).collect();
        let closed = self.closed.clone();
        let covered = |path: &PathBuf| {
            closed.iter().any(|place| {
                path.starts_with(place) && !roots.iter().any(|root| root.starts_with(place))
            })
        };
        for list in [&mut self.fixed, &mut self.absent, &mut self.watched] {
            let once: BTreeSet<PathBuf> = list.drain(..).collect();
            *list = once.into_iter().filter(|path| !covered(path)).collect();
        }
        // What would lie in something that is absent, too, is kept away with it; what has no
        // directory to lie in is kept away where that directory would be.
        let lowest: BTreeSet<PathBuf> = self.absent.drain(..).map(|p| first_absent(&p)).collect();
        self.absent = lowest
            .into_iter()
            .filter(|path| !self.fixed.iter().any(|fixed| path.starts_with(fixed)))
            .collect();
    }

    /// Directories in which something stays as it is; moved away, they would take it along.
    pub(super) fn pinned(&self) -> BTreeSet<PathBuf> {
        let mut pinned = BTreeSet::new();
        for path in self.fixed.iter().chain(&self.absent).chain(&self.closed) {
            for root in self.writable.iter().filter(|root| path.starts_with(root)) {
                let above = path.ancestors().skip(1).take_while(|at| at != root);
                pinned.extend(above.map(Path::to_owned));
            }
        }
        pinned
    }
}

/// Takes away what held places in a workspace when the house fell, as far as nobody needs it.
pub(super) fn sweep(workspace: &Path) {
    for name in SETTINGS_IN_WORKSPACE {
        release(&workspace.join(name));
    }
}

/// Whether something is there. What only holds a place for another command is nothing: whoever
/// relied on it would lose it when that command ends.
pub(super) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok() && !is_held_empty(path)
}

/// The nearest path above one, or itself, that does not exist while its directory does.
fn first_absent(path: &Path) -> PathBuf {
    path.ancestors()
        .find(|at| !exists(at) && at.parent().is_some_and(exists))
        .unwrap_or(path)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::super::placeholder::Placeholders;
    use super::*;

    #[test]
    fn secrets_are_closed_and_settings_kept_also_where_they_are_absent() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        for directory in
            ["home/.ssh", "home/.config", "ws/.git/hooks", "ws/.vscode", "other", "data"]
        {
            std::fs::create_dir_all(at.join(directory)).unwrap();
        }
        std::fs::write(at.join("ws/.git/config"), "").unwrap();
        let grounds = Grounds {
            home: Some(at.join("home")),
            closed: vec![at.join("data"), at.join("nowhere")],
            writable: Vec::new(),
        };
        let others = BTreeSet::from([at.join("other"), at.join("ws")]);
        let policy = Policy::of(&at.join("ws"), &grounds, &others).unwrap();
        assert_eq!(policy.writable, [at.join("ws")]);
        for closed in ["data", "home/.ssh", "other"] {
            assert!(policy.closed.contains(&at.join(closed)), "{closed}");
        }
        assert!(!policy.closed.iter().any(|path| path.ends_with("nowhere")));
        for fixed in ["ws/.git/config", "ws/.git/hooks", "ws/.vscode"] {
            assert!(policy.fixed.contains(&at.join(fixed)), "{fixed}");
        }
        for absent in ["ws/.mcp.json", "ws/.claude", "ws/.aion"] {
            assert!(policy.absent.contains(&at.join(absent)), "{absent}");
        }
        assert_eq!(policy.pinned(), BTreeSet::from([at.join("ws/.git")]));
    }

    #[test]
    fn what_holds_a_place_for_another_command_is_held_by_this_one_too() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(at.join("ws/.git")).unwrap();
        let grounds = Grounds { closed: vec![at.join("ws/keys")], ..Grounds::default() };
        let policy = || Policy::of(&at.join("ws"), &grounds, &BTreeSet::new()).unwrap();
        let alone = policy().absent;
        assert!(alone.contains(&at.join("ws/.mcp.json")) && alone.contains(&at.join("ws/keys")));
        assert!(alone.contains(&at.join("ws/.git/hooks")));
        let (first, _) = Placeholders::put(&alone).unwrap();
        assert_eq!(policy().absent, alone);
        let (second, _) = Placeholders::put(&policy().absent).unwrap();
        drop(first);
        assert!(second.paths().all(|path| path.is_dir()));
        drop(second);
        assert!(!alone.iter().any(|path| path.exists()));
    }

    #[test]
    fn what_a_fall_of_the_house_left_is_taken_away() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        for (name, mode) in [(".mcp.json", 0o555), (".claude", 0o755), (".zed", 0o555)] {
            std::fs::create_dir(at.join(name)).unwrap();
            std::fs::set_permissions(at.join(name), Permissions::from_mode(mode)).unwrap();
        }
        let (held, _) = Placeholders::put(&[at.join(".zed")]).unwrap();
        sweep(&at);
        assert!(!at.join(".mcp.json").exists(), "nobody held it");
        assert!(at.join(".claude").exists(), "it is somebody's own");
        assert!(at.join(".zed").exists(), "a command runs");
        drop(held);
    }

    #[test]
    fn a_home_directory_as_the_workspace_keeps_what_runs_by_itself() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap();
        std::fs::create_dir(home.join(".aws")).unwrap();
        std::fs::write(home.join(".bashrc"), "").unwrap();
        let grounds = Grounds { home: Some(home.clone()), ..Grounds::default() };
        let policy = Policy::of(&home, &grounds, &BTreeSet::new()).unwrap();
        assert!(policy.closed.contains(&home.join(".aws")));
        assert!(policy.fixed.contains(&home.join(".bashrc")));
        for absent in [".ssh", ".config", ".profile", ".git"] {
            assert!(policy.absent.contains(&home.join(absent)), "{absent}");
        }
        assert!(!policy.absent.contains(&home.join(".config/gh")));
    }
}
