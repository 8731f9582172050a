//! What makes git run commands of a repository's own: where it lies, and what of it is never to be
//! changed from inside a wall. It reads names and one configuration file, and runs no git.

use std::fs;
use std::path::{Path, PathBuf};

use super::policy::exists;

/// How deep submodules are looked for.
const DEPTH: usize = 4;
/// Bytes of a configuration that are looked through.
const CONFIG_BYTES: u64 = 1024 * 1024;

/// A repository around a workspace.
#[derive(Debug, Default)]
pub(super) struct Repository {
    /// Its directories outside of the workspace, which commits have to write to.
    pub(super) outside: Vec<PathBuf>,
    /// What exists and runs commands, or says which are run.
    pub(super) fixed: Vec<PathBuf>,
    /// What would do so if it existed, and can be kept from existing by a directory in its place.
    pub(super) absent: Vec<PathBuf>,
    /// The same, where git itself stumbles over anything in its place: it is taken away again.
    pub(super) watched: Vec<PathBuf>,
}

impl Repository {
    /// The repository of a workspace; empty if it has none, which then cannot be made from inside.
    pub(super) fn of(workspace: &Path) -> Self {
        let mut repository = Self::default();
        let dot_git = workspace.join(".git");
        match fs::symlink_metadata(&dot_git) {
            Err(_) => repository.absent.push(dot_git),
            // It holds the place for another command.
            Ok(_) if !exists(&dot_git) => repository.absent.push(dot_git),
            // A link leads to who knows where, and stays as it is.
            Ok(meta) if meta.is_symlink() => repository.fixed.push(dot_git),
            Ok(meta) if meta.is_dir() => repository.directory(&dot_git),
            Ok(_) => {
                if let Some((own, common)) = worktree(workspace, &dot_git) {
                    repository.directory(&common);
                    repository.fixed.extend(others_worktrees(&common, &own));
                    repository.own_worktree(&own);
                    repository.outside.push(common);
                }
                repository.fixed.push(dot_git);
            }
        }
        repository
    }

    /// A directory in which git keeps everything.
    fn directory(&mut self, git: &Path) {
        let config = git.join("config");
        let text = read(&config);
        for name in ["hooks", "config"] {
            self.fixed_or_absent(git.join(name));
        }
        let worktree_config = git.join("config.worktree");
        if worktree_config.exists() {
            self.fixed.push(worktree_config);
        } else if text.to_lowercase().contains("worktreeconfig") {
            self.watched.push(worktree_config);
        }
        // A main repository has none of these; with one, git reads its configuration elsewhere.
        self.watched.push(git.join("commondir"));
        if let Some(hooks) = hooks_path(&text)
            && let Some(root) = git.parent()
        {
            let place = root.join(hooks);
            if place.exists() {
                self.fixed.push(place);
            }
        }
        self.submodules(&git.join("modules"), DEPTH);
    }

    fn own_worktree(&mut self, own: &Path) {
        for name in ["gitdir", "commondir", "config.worktree"] {
            let path = own.join(name);
            if path.exists() {
                self.fixed.push(path);
            }
        }
    }

    fn submodules(&mut self, at: &Path, depth: usize) {
        if depth == 0 {
            return;
        }
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if path.join("HEAD").is_file() {
                self.fixed_or_absent(path.join("hooks"));
                self.fixed_or_absent(path.join("config"));
                self.submodules(&path.join("modules"), depth - 1);
            } else {
                self.submodules(&path, depth - 1);
            }
        }
    }

    fn fixed_or_absent(&mut self, path: PathBuf) {
        if exists(&path) {
            self.fixed.push(path);
        } else {
            self.absent.push(path);
        }
    }
}

/// Where a linked worktree keeps its own things, and where the repository is: only if that
/// repository knows this worktree, too. A file that an agent could have written proves nothing.
fn worktree(workspace: &Path, dot_git: &Path) -> Option<(PathBuf, PathBuf)> {
    let text = read(dot_git);
    let own = workspace.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = read(&own.join("gitdir"));
    if Path::new(back.trim()).canonicalize().ok()? != dot_git.canonicalize().ok()? {
        return None;
    }
    let common = own.join(read(&own.join("commondir")).trim()).canonicalize().ok()?;
    (own.parent()? == common.join("worktrees")).then_some((own, common))
}

fn others_worktrees(common: &Path, own: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path != own).collect()
}

/// The directory of hooks that a configuration names, if it does.
fn hooks_path(config: &str) -> Option<&str> {
    config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        name.trim().eq_ignore_ascii_case("hookspath").then(|| value.trim().trim_matches('"'))
    })
}

fn read(path: &Path) -> String {
    let small = fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.len() <= CONFIG_BYTES);
    if small { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_says_what_would_run() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        assert_eq!(Repository::of(at).absent, [at.join(".git")]);
        fs::create_dir_all(at.join(".git/modules/sub/hooks")).unwrap();
        fs::create_dir(at.join(".husky")).unwrap();
        fs::write(at.join(".git/modules/sub/HEAD"), "x").unwrap();
        fs::write(at.join(".git/config"), "[core]\n\thooksPath = .husky\n").unwrap();
        let found = Repository::of(at);
        let paths = |names: &[&str]| names.iter().map(|name| at.join(name)).collect::<Vec<_>>();
        assert_eq!(found.fixed, paths(&[".git/config", ".husky", ".git/modules/sub/hooks"]));
        assert_eq!(found.absent, paths(&[".git/hooks", ".git/modules/sub/config"]));
        assert_eq!(found.watched, paths(&[".git/commondir"]));
        assert!(found.outside.is_empty());
    }

    #[test]
    fn a_worktree_counts_only_where_its_repository_knows_it() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        let (main, own) = (at.join("main/.git"), at.join("main/.git/worktrees/w"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(at.join("main/.git/worktrees/other")).unwrap();
        fs::create_dir(at.join("w")).unwrap();
        fs::write(at.join("w/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("gitdir"), at.join("elsewhere/.git").display().to_string()).unwrap();
        assert!(Repository::of(&at.join("w")).outside.is_empty());
        fs::write(own.join("gitdir"), format!("{}\n", at.join("w/.git").display())).unwrap();
        let found = Repository::of(&at.join("w"));
        assert_eq!(found.outside, std::slice::from_ref(&main));
        assert!(found.fixed.contains(&main.join("worktrees/other")));
        assert!(found.absent.contains(&main.join("hooks")));
    }
}
