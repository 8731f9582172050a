//! The HTTP clients that the services are called with, made once each; it calls nobody.

use std::fmt;
use std::sync::OnceLock;

use aion_agent::models::calls;
use reqwest::Client;

use super::found::is_here;
use crate::client::{with_tls, without_tls};

/// One client for this machine, and one for others.
#[derive(Default)]
pub(crate) struct Callers {
    here: OnceLock<Client>,
    away: OnceLock<Client>,
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").finish_non_exhaustive()
    }
}

impl Callers {
    /// What calls a place. A program of this machine is called without a proxy; where it is called
    /// by TLS it is called like others.
    pub(crate) fn of(&self, place: &str) -> Result<Client, String> {
        let plain = is_here(place) && place.starts_with("http:");
        let made = if plain { &self.here } else { &self.away };
        if let Some(client) = made.get() {
            return Ok(client.clone());
        }
        let builder =
            if plain { without_tls().map(reqwest::ClientBuilder::no_proxy) } else { with_tls() };
        let builder = builder.map_err(|failure| failure.message().to_owned())?;
        let client = calls(builder).map_err(|error| error.to_string())?;
        Ok(made.get_or_init(|| client).clone())
    }
}
