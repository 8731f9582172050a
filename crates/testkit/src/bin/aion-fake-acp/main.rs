//! A stand-in for any coding agent that speaks ACP: it does what its prompts say, has no model, and
//! misbehaves in the ways that are named on its command line.
//!
//! A prompt says what to do by words in it: `say hello`, `hang`, `crash`, `work`, `recall`, … (see
//! [`turn`]). Sessions are kept in the directory `FAKE_ACP_SESSIONS`, where it is set, so that another
//! process can open them again.

mod agent;
mod sessions;
mod turn;
mod wire;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

use aion_agent::leash::leash_main;

use self::agent::Agent;
use self::wire::Wire;

/// The misbehaviours that were asked for.
#[derive(Debug)]
struct Odd(BTreeSet<String>);

impl Odd {
    fn is(&self, word: &str) -> bool {
        self.0.contains(word)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    // Tests keep it on a leash that it holds itself.
    if first.as_deref() == Some("__leash".as_ref()) {
        return leash_main(arguments);
    }
    let words = first.into_iter().chain(arguments).map(OsString::into_string);
    let odd = Odd(words.filter_map(Result::ok).collect());
    let stays = odd.is("stays");
    let wire = Wire::open(&odd, stays);
    Agent::new(odd, wire).serve();
    if stays {
        // Neither the end of its input nor a signal makes it go.
        wire::never();
    }
    ExitCode::SUCCESS
}
