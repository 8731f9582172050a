//! The models' services as they can be called from here: where, with whose key and which model;
//! it shows no key to anybody.

mod choice;
mod found;
mod http;
mod source;
mod stored;

pub(crate) use self::choice::{Chosen, Kind, Offer, Wanted, choose};
pub(crate) use self::found::{Found, KeyFrom, Surroundings};
pub(crate) use self::http::Callers;
pub(crate) use self::source::{Services, catalogue, dollars, services};
pub(crate) use self::stored::Stored;
