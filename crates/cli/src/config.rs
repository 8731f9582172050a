//! Settings from files and the environment, each with where it came from; it sets nothing by itself.
//!
//! The nearest word counts: an option of the command line, the environment, the project's own local
//! file (`.aion/local/config.toml`), the project's file (`.aion/config.toml`), the user's file, what
//! is built in. A project's files come with the project, so they set only what can do no harm.

mod edit;
mod keys;
mod layers;
mod rules;
mod schema;

pub(crate) use self::edit::{allow, set};
pub(crate) use self::keys::{Key, find, keys, nearest, place, reference};
pub(crate) use self::layers::{Paths, Settings, is_secret};
pub(crate) use self::rules::{Written, read as read_rule, written};
pub(crate) use self::schema::schema;
