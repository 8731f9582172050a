//! Stand-ins for tests of the shells: scripted agents, model server, faulty store; with the binaries that benches and checks start.

pub mod backend;
pub mod chance;
pub mod contract;
pub mod faults;
pub mod figures;
pub mod gate;
pub mod house;
pub mod model_server;

pub use aion_store::{EventStore, MemoryStore};
