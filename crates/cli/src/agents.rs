//! Programs of others that members can be: where they are on this machine, and whether they can be
//! used; it starts none of them as an agent.
//!
//! What is known of one is its profile (`backends::acp`), with what the person's own settings say of
//! it. What is found is files: a program on the path, a package that names its version, a file that
//! a login left. Only where no file names a version is the program asked, in the background, with an
//! empty home and nothing of the person's environment.

mod found;
mod ground;
mod place;
mod programs;
mod row;
mod version;
mod written;

pub(crate) use self::programs::Programs;
pub(crate) use self::row::Choice;
pub(crate) use self::written::TABLE;
