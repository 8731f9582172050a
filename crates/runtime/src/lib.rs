//! Drives the core: sessions, runners, tools, supervision.
//!
//! A [`TeamService`] opens teams; each runs in its own session, which alone decides by the rules of
//! `aion-core`, stores what was decided, and only then answers, publishes and acts. Everybody else
//! holds a [`TeamHandle`]. The runtime has no rules of its own.

mod batch;
mod bus;
mod clock;
mod connections;
mod effects;
mod failpoints;
mod handle;
mod host;
mod ids;
mod load;
mod rules;
mod runner;
mod service;
mod session;
mod snapshots;
mod timer;
pub mod tools;
mod world;

pub use aion_agent::host::{Delta, HostError};
pub use aion_backends::{Availability, Connection, ConnectionToken};
pub use aion_store::{Deliveries, MessageState, StoreError, TeamRow, Totals};
pub use bus::{DeltaSubscription, LiveDelta, Subscription, SubscriptionEnd};
pub use clock::{Clock, ManualClock, SystemClock};
pub use connections::Connections;
pub use failpoints::FAILPOINTS;
pub use handle::{Committed, Events, SubmitError, TeamHandle};
pub use ids::{Ids, RandomIds};
pub use load::OpenError;
pub use rules::check_rule;
pub use service::{CreateError, NewTeam, TeamService};
pub use world::{Backends, House};
