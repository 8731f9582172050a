//! Developer commands of the repository.

fn main() {}
