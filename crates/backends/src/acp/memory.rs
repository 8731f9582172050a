//! Which session of its agent a conversation goes on in, kept over the fall of the house; never what
//! was said there.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use aion_core::id::ConversationId;
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
    /// What is kept of a conversation. What cannot be read was not kept.
    fn recall(&self, conversation: &ConversationId) -> Option<Kept>;
    /// Keeps it, in place of what was kept before.
    fn keep(&self, conversation: &ConversationId, kept: &Kept) -> io::Result<()>;
}

/// One small file a conversation, in a directory.
#[derive(Clone, Debug)]
pub struct SessionDirectory(PathBuf);

impl SessionDirectory {
    /// Opens or makes the directory.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }

    /// Its file. An id is made of letters that mean nothing to a file system.
    fn path(&self, conversation: &ConversationId) -> PathBuf {
        self.0.join(format!("{}.json", conversation.as_str()))
    }
}

impl SessionMemory for SessionDirectory {
    fn recall(&self, conversation: &ConversationId) -> Option<Kept> {
        let path = self.path(conversation);
        let fits = fs::metadata(&path).is_ok_and(|file| file.len() <= FILE_BYTES);
        serde_json::from_slice(&fs::read(path).ok().filter(|_| fits)?).ok()
    }

    fn keep(&self, conversation: &ConversationId, kept: &Kept) -> io::Result<()> {
        let path = self.path(conversation);
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
