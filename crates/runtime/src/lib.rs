//! Drives the core: sessions, runners, tools, supervision.
