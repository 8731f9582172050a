//! Runs seeds, looks for what did not hold, and reports; it never changes what a seed does.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use aion_core::event::{Event, Recorded};
use aion_core::id::MessageId;
use aion_core::message::Body;
use aion_core::team::Team;

use crate::invariants;
use crate::model::Violation;
use crate::mutants::Mutant;
use crate::world::{SECRETS, Stats, World};

/// How many seeds a mutant may need.
const SEEDS_PER_MUTANT: u64 = 400;
/// How many faults are printed in full.
const SHOWN: usize = 10;

/// What all runs did together.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<(String, u64, Stats, u64, f64)>,
    mutants: Vec<(Mutant, Option<u64>, String)>,
    failed: bool,
}

/// Runs one seed up to its end or to the first fault.
pub(crate) fn simulate(seed: u64, mutant: Option<Mutant>, liveness: bool, verbose: bool) -> World {
    let mut world = World::new(seed, mutant);
    world.verbose = verbose;
    world.set_up();
    // Most teams are short, some live long.
    let long = world.rng.percent(2);
    let operations = if long { 2_000 } else { 200 + world.rng.below(60) };
    let mut after_end = 0;
    while world.stats.operations < operations && after_end < 15 && !world.broken() {
        world.operate();
        after_end += u32::from(world.model.ended && world.stats.operations >= 200);
    }
    if !world.broken() {
        come_back(&mut world);
    }
    if liveness && !world.broken() {
        come_to_rest(&mut world);
    }
    if !world.broken() {
        check_whole(&mut world);
    }
    let counts = world.model.counts;
    world.stats.turns = counts.turns;
    world.stats.accepted = counts.accepted;
    world.stats.acknowledged = counts.acknowledged;
    world.stats.dead = counts.dead;
    world.stats.decided = counts.decided;
    world.stats.restarts = counts.restarts;
    world
}

/// The house stands at the end, and every client gets its answer.
fn come_back(world: &mut World) {
    world.faults = false;
    world.open();
    while !world.client.unsure.is_empty() && !world.broken() {
        world.retry();
    }
}

/// Faults are over, agents answer, the person decides: the team comes to rest in bounded steps.
fn come_to_rest(world: &mut World) {
    world.calm = true;
    world.settle_by_person(true);
    for round in 0..60 {
        // A turn takes a few steps and reads at least one message.
        let open: u64 = world.model.open_mail.values().map(|n| u64::from(*n)).sum();
        let bound = 400 + 12 * open;
        let mut steps = 0;
        while steps < bound && !world.broken() && world.advance() {
            steps += 1;
        }
        if steps == bound {
            world.model.fail("LIVE", "the team does not come to rest in bounded turns");
        }
        if world.broken() || !world.settle_by_person(round < 30) {
            break;
        }
    }
    if let Some(session) = &world.session
        && !session.team.is_ended()
    {
        invariants::nothing_is_stuck(&mut world.model, &session.team);
    }
}

/// What holds for the log as a whole.
fn check_whole(world: &mut World) {
    let Some(session) = &world.session else {
        return world.model.fail("INV-22", "the house does not come up");
    };
    invariants::compare_all(&mut world.model, &session.team);
    invariants::compare_size(&mut world.model, &session.team);
    check_replay(world);
    let mut told = replies_were_true(world);
    told.extend(secrets_stay_out(world));
    if world.seed.is_multiple_of(8) {
        told.extend(records_come_back(world));
    }
    for (rule, text) in told {
        world.model.fail(rule, text);
    }
}

/// A snapshot at a random place and the events behind it give the state that the session holds,
/// the effects that it owes, and its timer.
pub(crate) fn check_replay(world: &mut World) {
    let cut = world.rng.index(world.log.len() + 1);
    let Some(session) = &world.session else { return };
    let mut told = Vec::new();
    match replay(world, cut) {
        Ok(team) => {
            if team != session.team {
                told.push(format!("snapshot at {cut} and tail differ from the live state"));
            }
            if team.outstanding() != session.team.outstanding() {
                told.push(format!("what is outstanding differs after a replay from {cut}"));
            }
            if team.poll_timeout() != session.team.poll_timeout() {
                told.push("the timer differs after a replay".to_owned());
            }
            let owed = team.outstanding().iter().all(|e| session.in_flight.contains(&e.key()));
            if !owed {
                told.push("something is outstanding, and nobody does it".to_owned());
            }
        }
        Err(error) => told.push(format!("the snapshot at {cut} cannot be read: {error}")),
    }
    for text in told {
        world.model.fail("REPLAY", text);
    }
}

/// Every record is read back as it was written.
fn records_come_back(world: &World) -> Option<(&'static str, String)> {
    world.log.iter().find_map(|recorded| {
        let text = serde_json::to_string(recorded).expect("an event is serialised");
        match serde_json::from_str::<Recorded>(&text) {
            Ok(back) if back == *recorded => None,
            Ok(_) => Some(("REPLAY", format!("{} is read back as something else", recorded.seq))),
            Err(error) => Some(("REPLAY", format!("{} cannot be read: {error}", recorded.seq))),
        }
    })
}

/// The state from a snapshot somewhere in the log and the events behind it.
fn replay(world: &World, cut: usize) -> Result<Team, serde_json::Error> {
    let mut team = Team::new();
    for recorded in &world.log[..cut] {
        team.evolve(recorded.at, &recorded.event);
    }
    let bytes = serde_json::to_vec(&team)?;
    let mut team: Team = serde_json::from_slice(&bytes)?;
    for recorded in &world.log[cut..] {
        team.evolve(recorded.at, &recorded.event);
    }
    Ok(team)
}

/// INV-02: accepted is in the log, once; without an answer at most once.
fn replies_were_true(world: &World) -> Vec<(&'static str, String)> {
    let mut found: BTreeMap<&str, Vec<MessageId>> = BTreeMap::new();
    for recorded in &world.log {
        if let Event::MessageSent { message, .. } = &recorded.event
            && let Body::Text(text) = &message.body
            && message.again.is_none()
            && text.starts_with("text ")
        {
            found.entry(text).or_default().push(message.id);
        }
    }
    let mut told = Vec::new();
    for sent in &world.client.sends {
        let ids = found.get(sent.message.text.as_str()).map_or(&[][..], Vec::as_slice);
        if ids.len() > 1 {
            told.push((
                "INV-02",
                format!("{:?} is in the log {} times", sent.message.text, ids.len()),
            ));
        }
        if let Some(id) = sent.accepted
            && ids.first() != Some(&id)
        {
            told.push((
                "INV-02",
                format!("{:?} was accepted as {id}, the log has {ids:?}", sent.message.text),
            ));
        }
    }
    told
}

/// INV-32: keys, credentials and the input of calls that nobody judges are no part of an event or
/// of the state. A credential stands beside an event, by its name.
fn secrets_stay_out(world: &World) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    for recorded in &world.log {
        let worth = matches!(
            recorded.event,
            Event::MessageSent { .. }
                | Event::KeyUsed { .. }
                | Event::ToolProposed { .. }
                | Event::RequestOpened { .. }
        );
        if !worth {
            continue;
        }
        let text = serde_json::to_string(&recorded.event).expect("an event is serialised");
        for secret in SECRETS.into_iter().filter(|secret| text.contains(secret)) {
            told.push(("INV-32", format!("{} holds the secret {secret:?}", recorded.seq)));
        }
    }
    if let Some(session) = &world.session {
        let text = serde_json::to_string(&session.team).expect("a team is serialised");
        for secret in SECRETS.into_iter().filter(|secret| text.contains(secret)) {
            told.push(("INV-32", format!("the state holds the secret {secret:?}")));
        }
    }
    told
}

/// One seed, told in full.
pub(crate) fn one(seed: u64, liveness: bool) -> bool {
    let world = simulate(seed, None, liveness, true);
    println!("{:?}", world.stats);
    show(&world);
    if world.broken() {
        println!("the log is in {}", save(&world).display());
    }
    !world.broken()
}

fn show(world: &World) {
    for Violation { rule, seq, text } in &world.model.violations {
        println!("{rule} at {seq}: {text}");
    }
}

/// Keeps the log of a seed as JSON lines, one record each.
fn save(world: &World) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("sim");
    let path = folder.join(format!("seed-{}.jsonl", world.seed));
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
        for recorded in &world.log {
            serde_json::to_writer(&mut file, recorded)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    if let Err(error) = write() {
        println!("the log could not be kept: {error}");
    }
    path
}

/// The traces of some seeds, for another process to compare.
pub(crate) fn print_traces(from: u64, count: u64) {
    for seed in from..from + count {
        println!("{seed} {:016x}", simulate(seed, None, false, false).trace());
    }
}

impl Report {
    pub(crate) fn passed(&self) -> bool {
        !self.failed
    }

    /// Many seeds on some threads.
    pub(crate) fn seeds(&mut self, first: u64, count: u64, threads: usize, liveness: bool) {
        let begun = Instant::now();
        let next = AtomicU64::new(first);
        let sum = Mutex::new((Stats::default(), 0_u64, BTreeMap::<&'static str, Vec<u64>>::new()));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= first + count {
                            return;
                        }
                        let world = guarded(seed, liveness);
                        let mut sum = sum.lock().expect("no thread panicked with it");
                        match world {
                            Ok(world) => {
                                sum.0.add(&world.stats);
                                if world.broken() {
                                    sum.1 += 1;
                                    if sum.1 <= SHOWN as u64 {
                                        tell(&world, liveness);
                                    }
                                    let rule = world.model.violations[0].rule;
                                    sum.2.entry(rule).or_default().push(seed);
                                }
                            }
                            Err(text) => {
                                sum.1 += 1;
                                println!("seed {seed}: panicked: {text}");
                                sum.2.entry("PANIC").or_default().push(seed);
                            }
                        }
                    }
                });
            }
        });
        let (stats, broken, rules) = sum.into_inner().expect("no thread panicked with it");
        for (rule, seeds) in rules {
            println!("{rule}: {} seeds, the first {:?}", seeds.len(), seeds.iter().min());
        }
        self.failed |= broken > 0;
        let name = if liveness { "liveness" } else { "seeds" };
        self.rows.push((name.to_owned(), count, stats, broken, begun.elapsed().as_secs_f64()));
    }

    /// The same seed gives the same trace: twice here, and in another process.
    pub(crate) fn determinism(&mut self, first: u64, count: u64) {
        let begun = Instant::now();
        let mut stats = Stats::default();
        let mut broken = 0;
        let mut here = String::new();
        for seed in first..first + count {
            let one = simulate(seed, None, false, false);
            let two = simulate(seed, None, false, false);
            stats.add(&one.stats);
            if one.trace() != two.trace() {
                println!("seed {seed}: two runs in one process differ");
                broken += 1;
            }
            writeln!(here, "{seed} {:016x}", one.trace()).expect("a string takes it");
        }
        let program = std::env::current_exe().expect("a program knows its file");
        let there = std::process::Command::new(program)
            .args(["--trace", &first.to_string(), &count.to_string()])
            .output()
            .expect("the same program starts again");
        if there.stdout != here.as_bytes() {
            println!("another process gives other traces");
            broken += 1;
        }
        self.failed |= broken > 0;
        self.rows.push((
            "determinism".to_owned(),
            count,
            stats,
            broken,
            begun.elapsed().as_secs_f64(),
        ));
    }

    /// Every planted fault is caught, and by the rule that it breaks.
    pub(crate) fn mutants(&mut self, threads: usize) {
        let begun = Instant::now();
        let next = AtomicU64::new(0);
        let found = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let index = usize::try_from(next.fetch_add(1, Ordering::Relaxed))
                            .unwrap_or(usize::MAX);
                        let Some(mutant) = Mutant::ALL.get(index) else { return };
                        let caught = hunt(*mutant);
                        found.lock().expect("no thread panicked with it").insert(index, caught);
                    }
                });
            }
        });
        let found = found.into_inner().expect("no thread panicked with it");
        let mut missed = 0;
        for (index, (seeds, told)) in found {
            missed += u64::from(seeds.is_none());
            self.mutants.push((Mutant::ALL[index], seeds, told));
        }
        self.failed |= missed > 0;
        let count = Mutant::ALL.len() as u64;
        self.rows.push((
            "mutants".to_owned(),
            count,
            Stats::default(),
            missed,
            begun.elapsed().as_secs_f64(),
        ));
    }

    pub(crate) fn print(&self) {
        if !self.mutants.is_empty() {
            println!("{:<20} {:<18} {:>6}  planted fault", "mutant", "rule", "seeds");
            for (mutant, seeds, told) in &self.mutants {
                let seeds = seeds.map_or_else(|| "MISSED".to_owned(), |n| n.to_string());
                let rule = mutant.rule().split('|').next().unwrap_or_default();
                println!(
                    "{:<20} {rule:<18} {seeds:>6}  {}{told}",
                    format!("{mutant:?}"),
                    mutant.text()
                );
            }
        }
        println!(
            "{:<12} {:>7} {:>10} {:>10} {:>8} {:>7} {:>8} {:>9} {:>9} {:>7} {:>8} {:>10} {:>7}",
            "run",
            "seeds",
            "operations",
            "events",
            "crashes",
            "nested",
            "faults",
            "accepted",
            "acked",
            "dead",
            "restarts",
            "violations",
            "time"
        );
        for (name, seeds, s, broken, time) in &self.rows {
            println!(
                "{name:<12} {seeds:>7} {:>10} {:>10} {:>8} {:>7} {:>8} {:>9} {:>9} {:>7} {:>8} {broken:>10} {time:>6.1}s",
                s.operations,
                s.events,
                s.crashes,
                s.nested,
                s.faults,
                s.accepted,
                s.acknowledged,
                s.dead,
                s.restarts
            );
        }
        if !self.mutants.is_empty() {
            let caught = self.mutants.iter().filter(|(_, seeds, _)| seeds.is_some()).count();
            println!("mutants caught: {caught} of {}", self.mutants.len());
        }
    }
}

fn tell(world: &World, liveness: bool) {
    println!("seed {}:", world.seed);
    show(world);
    let mode = if liveness { " --liveness 1" } else { "" };
    println!("  the log: {}", save(world).display());
    println!("  again:   cargo test -p aion-core --test sim -- --seed {}{mode}", world.seed);
}

/// A seed whose panic, if there is one, is a fault like others.
fn guarded(seed: u64, liveness: bool) -> Result<World, String> {
    std::panic::catch_unwind(|| simulate(seed, None, liveness, false)).map_err(|panic| {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
            .unwrap_or_else(|| "without a word".to_owned())
    })
}

/// How many seeds it takes until a mutant is caught by its rule.
fn hunt(mutant: Mutant) -> (Option<u64>, String) {
    let planted = AtomicBool::new(false);
    let mut others: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 1..=SEEDS_PER_MUTANT {
        let world = simulate(seed, Some(mutant), false, false);
        planted.fetch_or(world.mutated > 0, Ordering::Relaxed);
        let Some(first) = world.model.violations.first() else { continue };
        if mutant
            .rule()
            .split('|')
            .any(|rule| world.model.violations.iter().any(|v| v.rule == rule))
        {
            return (Some(seed), String::new());
        }
        *others.entry(first.rule).or_default() += 1;
    }
    let planted = planted.load(Ordering::Relaxed);
    (None, format!(" (planted: {planted}, other rules: {others:?})"))
}

impl Stats {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.events += other.events;
        self.crashes += other.crashes;
        self.nested += other.nested;
        self.faults += other.faults;
        self.turns += other.turns;
        self.accepted += other.accepted;
        self.acknowledged += other.acknowledged;
        self.dead += other.dead;
        self.decided += other.decided;
        self.restarts += other.restarts;
        self.rejected += other.rejected;
    }
}
