//! What is known of models: their windows and prices; never asks a service.

use super::Service;

/// What a million tokens cost, in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from a cache.
    pub cache_read: u64,
    /// Tokens written to a cache.
    pub cache_write: u64,
}

/// What is known of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its id at the service.
    pub id: String,
    /// Whose it is.
    pub service: Service,
    /// The tokens that its window holds.
    pub context_window: u32,
    /// The most tokens that it writes in one answer.
    pub max_output: u32,
    /// What it costs, if that is known.
    pub price: Option<Price>,
}

/// The models that are known.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    models: Vec<ModelInfo>,
}

impl Catalogue {
    /// A catalogue of these models.
    #[must_use]
    pub fn new(models: Vec<ModelInfo>) -> Self {
        Self { models }
    }

    /// What is known of a model at a service.
    #[must_use]
    pub fn find(&self, service: Service, id: &str) -> Option<&ModelInfo> {
        self.models.iter().find(|model| model.service == service && model.id == id)
    }
}
