//! tmp
pub(crate) fn hit(_: &str) {}
