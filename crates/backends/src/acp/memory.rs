//! Which session of its agent a conversation goes on in, kept over the fall of the house; never what
//! was said there.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aion_core::id::{ConversationId, TeamId};
use serde::{Deserialize, Serialize};

/// The longest file that is read.
const FILE_BYTES: u64 = 16 * 1024;

/// What is kept of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The agent's profile.
    pub agent: String,
    /// The directory that the session was opened for.
    pub workspace: PathBuf,
    /// The session, by the agent's own id.
    pub session: String,
}

/// Where it is kept. Calls may block.
pub trait SessionMemory: Send + Sync + fmt::Debug + 'static {
    /// What is kept of a team's conversation. What cannot be read was not kept.
    fn recall(&self, team: &TeamId, conversation: &ConversationId) -> Option<Kept>;
    /// Keeps it, in place of what was kept before.
    fn keep(&self, team: &TeamId, conversation: &ConversationId, kept: &Kept) -> io::Result<()>;
}

/// One small file a conversation, in a directory a team.
#[derive(Clone, Debug)]
pub struct SessionDirectory(PathBuf);

impl SessionDirectory {
    /// Opens or makes the directory.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }

    /// Forgets what is kept of a team.
    pub fn forget(&self, team: &TeamId) {
        // What stays is found by nobody: no other team has this name.
        let _ = fs::remove_dir_all(self.0.join(team.as_str()));
    }

    /// Its file. Ids are made of letters that mean nothing to a file system.
    fn path(&self, team: &TeamId, conversation: &ConversationId) -> PathBuf {
        self.0.join(team.as_str()).join(format!("{}.json", conversation.as_str()))
    }
}

impl SessionMemory for SessionDirectory {
    fn recall(&self, team: &TeamId, conversation: &ConversationId) -> Option<Kept> {
        let path = self.path(team, conversation);
        let fits = fs::metadata(&path).is_ok_and(|file| file.len() <= FILE_BYTES);
        serde_json::from_slice(&fs::read(path).ok().filter(|_| fits)?).ok()
    }

    fn keep(&self, team: &TeamId, conversation: &ConversationId, kept: &Kept) -> io::Result<()> {
        let path = self.path(team, conversation);
        fs::create_dir_all(self.0.join(team.as_str()))?;
        // A fall in the middle leaves what was kept before.
        let next = path.with_extension("next");
        write(&next, &serde_json::to_vec(kept)?)?;
        fs::rename(next, path)
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_teams_and_goes_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let memory = SessionDirectory::open(directory.path().join("sessions")).unwrap();
        let (one, other) = (TeamId::new("one").unwrap(), TeamId::new("other").unwrap());
        let conversation = ConversationId::new("c").unwrap();
        let kept = |session: &str| Kept {
            agent: "claude".to_owned(),
            workspace: "/w".into(),
            session: session.to_owned(),
        };
        assert_eq!(memory.recall(&one, &conversation), None);
        memory.keep(&one, &conversation, &kept("first")).unwrap();
        memory.keep(&one, &conversation, &kept("second")).unwrap();
        memory.keep(&other, &conversation, &kept("third")).unwrap();
        assert_eq!(memory.recall(&one, &conversation), Some(kept("second")));
        memory.forget(&one);
        memory.forget(&one);
        assert_eq!(memory.recall(&one, &conversation), None);
        assert_eq!(memory.recall(&other, &conversation), Some(kept("third")));
        fs::write(directory.path().join("sessions/other/c.json"), "half a fi").unwrap();
        assert_eq!(memory.recall(&other, &conversation), None);
    }
}
