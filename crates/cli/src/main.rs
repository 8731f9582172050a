//! The binary `aion`: the door to a team.

fn main() {}
