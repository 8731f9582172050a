//! The hash chain over a team's stored bytes; it never looks into them.

use std::fmt;

use sha2::{Digest, Sha256};

/// One link: SHA-256 of the link before it and the stored bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link(pub(crate) [u8; 32]);

impl Link {
    /// What the first event is chained to.
    pub(crate) const START: Self = Self([0; 32]);

    /// The link of `body`, which follows this one.
    pub(crate) fn next(self, body: &[u8]) -> Self {
        let mut digest = Sha256::new();
        digest.update(self.0);
        digest.update(body);
        Self(digest.finalize().into())
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// SHA-256 of some bytes as lower-case hex.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Link(Sha256::digest(bytes).into()).to_string()
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}
