//! The command line as a client: finds the daemon of a data directory or starts it, calls it, and
//! follows teams; it decides nothing, and knows no store.

mod ending;
mod http;
mod named;
mod past;
mod place;
mod problem;
mod reach;
mod socket;
mod start;
mod tls;
mod version;

pub(crate) use self::ending::{end, settle};
pub(crate) use self::http::{Client, Target};
pub(crate) use self::named::{find_member, find_team};
pub(crate) use self::past::{folded, page};
pub(crate) use self::place::{DaemonFile, Look, look};
pub(crate) use self::reach::{connect, connect_local, target};
pub(crate) use self::socket::{Heard, Listening};
pub(crate) use self::start::{Start, last_lines, log_file, start};
pub(crate) use self::tls::{with_authorities, with_tls, without_tls};
