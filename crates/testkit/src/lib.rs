//! Stand-ins for tests of the shells: scripted agents, model server, faulty store.

pub mod faults;
