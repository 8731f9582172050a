//! Remembers outside the database how far it had come, so that a truncated file is noticed; it is
//! never what an answer is read from.
//!
//! A database whose log was cut off opens without complaint at an earlier commit. The witness is
//! overwritten in place after each commit and is never synced: at a power failure it may lag
//! behind the database, but it is never ahead of what was durable.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::StoreError;
use crate::sqlite::connection::create_private;

/// The place of each number in the file.
const COMMITS: u64 = 0;
const DATABASE_BYTES: u64 = 512;

/// What the database must not fall behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Testimony {
    /// The number of the last commit that was answered.
    pub(crate) commits: u64,
    /// The size of the database file after the last checkpoint.
    pub(crate) database_bytes: u64,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Witness {
    file: File,
}

impl Witness {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        create_private(path)
            .map(|file| Self { file })
            .map_err(|error| StoreError::Unavailable(format!("open {}: {error}", path.display())))
    }

    /// What an earlier process left, as far as it can be read. A file that is missing, for example
    /// beside a restored copy, testifies to nothing.
    pub(crate) fn testimony(path: &Path) -> Testimony {
        File::open(path).map_or_else(
            |_| Testimony::default(),
            |file| Testimony {
                commits: read(&file, COMMITS),
                database_bytes: read(&file, DATABASE_BYTES),
            },
        )
    }

    pub(crate) fn commits(&self, commits: u64) {
        self.write(COMMITS, commits);
    }

    pub(crate) fn database_bytes(&self, bytes: u64) {
        self.write(DATABASE_BYTES, bytes);
    }

    /// Makes the file itself durable; done once, when it is made.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync_all()
    }

    fn write(&self, at: u64, value: u64) {
        let mut record = [0; 16];
        record[..8].copy_from_slice(&value.to_le_bytes());
        record[8..].copy_from_slice(&(!value).to_le_bytes());
        if let Err(error) = self.file.write_at(&record, at) {
            tracing::warn!(%error, "the store's witness could not be written");
        }
    }
}

fn read(file: &File, at: u64) -> u64 {
    let mut record = [0; 16];
    if file.read_exact_at(&mut record, at).is_err() {
        return 0;
    }
    let half = |range: std::ops::Range<usize>| {
        record[range].iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    };
    if half(8..16) == !half(0..8) { half(0..8) } else { 0 }
}
