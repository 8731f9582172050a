//! The models' services: keys, prices, and the [`Provider`](crate::provider::Provider) that calls
//! them; never what an agent does with an answer.

mod catalogue;
mod client;
mod guard;
mod limits;
mod retry;
mod secret;
mod service;
mod wire;

pub use self::catalogue::{BadPrices, Catalogue, ModelInfo, Price};
pub use self::client::{ServiceProvider, UnusableService, calls};
pub use self::retry::Patience;
pub use self::secret::Secret;
pub use self::service::{Service, ServiceConfig};
