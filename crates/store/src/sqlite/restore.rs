//! Puts a copy in the place of a store that nobody uses; a cut at any point leaves the old store or
//! the new one, and never a part of either that opens.
//!
//! A note lies in the directory from before the first move until after the last one. Nothing that
//! reads opens a directory with a note, and whoever opens it for writing takes all moves back.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::encode::wall_ms;
use crate::error::StoreError;
use crate::sqlite::backup::{copy_database, copy_tree, remove};
use crate::sqlite::connection::{
    Paths, create_private, create_private_dir, failed, read_only, sync_dir,
};
use crate::sqlite::lock::DirectoryLock;
use crate::sqlite::read;
use crate::sqlite::store::SqliteStore;
use crate::sqlite::writer::progress;

/// Where the new parts wait until all of them are there.
const STAGE: &str = "restore.new";
/// The note: the name of the directory that keeps the old parts, and then the name of each of them.
const NOTE: &str = "restore.unfinished";
/// How the directories that keep old parts begin.
const KEPT: &str = "before-restore-";
/// The parts of a store. The witness is the last that goes and the first that comes back.
const DATABASE: &str = "store.db";
const LOGS: [&str; 2] = ["store.db-wal", "store.db-shm"];
const BLOBS: &str = "blobs";
const WITNESS: &str = "witness";

/// Passed after each change; an error ends the restoring there, as if the process had died.
pub(super) type Step<'a> = &'a mut dyn FnMut() -> Result<(), StoreError>;

/// Puts a copy, with the directories `beside` its store, in the place of what a data directory has
/// of them, which nobody may use meanwhile. What was there is kept in a directory beside it, whose
/// path is the answer.
pub(super) fn restore(
    copy: &Path,
    dir: &Path,
    beside: &[&str],
    step: Step<'_>,
) -> Result<Option<PathBuf>, StoreError> {
    let fail = |error: io::Error| {
        StoreError::Unavailable(format!("restore the store in {}: {error}", dir.display()))
    };
    drop(SqliteStore::open_read_only(copy)?);
    create_private_dir(dir).map_err(fail)?;
    let _alone = DirectoryLock::take(&Paths::new(dir).lock)?;
    take_back(dir)?;
    // First all that can fail for want of room; what is there is touched only then.
    let stage = dir.join(STAGE);
    create_private_dir(&stage).map_err(fail)?;
    stage_database(copy, &stage)?;
    let trees: Vec<&str> = [BLOBS].into_iter().chain(beside.iter().copied()).collect();
    for tree in &trees {
        copy_tree(&copy.join(tree), &stage.join(tree)).map_err(fail)?;
    }
    sync_dir(&stage).map_err(fail)?;
    step()?;
    let parts = [DATABASE].into_iter().chain(LOGS).chain(trees.iter().copied());
    let old: Vec<&str> = parts.chain([WITNESS]).filter(|part| dir.join(part).exists()).collect();
    let name = format!("{KEPT}{}", wall_ms());
    let kept = dir.join(&name);
    if !old.is_empty() {
        create_private_dir(&kept).map_err(fail)?;
    }
    write_note(dir, &name, &trees, &old).map_err(fail)?;
    step()?;
    let mut go = |from: PathBuf, to: PathBuf| {
        fs::rename(from, to).map_err(fail)?;
        step()
    };
    for part in old.iter().filter(|part| **part != WITNESS) {
        go(dir.join(part), kept.join(part))?;
    }
    for part in trees.iter().chain(&[DATABASE]) {
        go(stage.join(part), dir.join(part))?;
    }
    if old.contains(&WITNESS) {
        sync_dir(dir).map_err(fail)?;
        go(dir.join(WITNESS), kept.join(WITNESS))?;
    }
    if !old.is_empty() {
        sync_dir(&kept).map_err(fail)?;
    }
    sync_dir(dir).map_err(fail)?;
    fs::remove_file(dir.join(NOTE)).map_err(fail)?;
    step()?;
    remove(&stage).and_then(|()| sync_dir(dir)).map_err(fail)?;
    Ok((!old.is_empty()).then_some(kept))
}

/// Copies a database with what is in its log, and reads all of the result.
fn stage_database(copy: &Path, stage: &Path) -> Result<(), StoreError> {
    let source = Paths::new(copy);
    // A running store's file says by its header that it has a log; only with its witness it is
    // known whether all of that log is here.
    if has_log(&source.database) && !source.witness.is_file() {
        return Err(StoreError::Corrupt(format!(
            "{} was taken from a data directory without the file `witness` beside it, so that \
             nobody can say whether all of it is here; restore what `aion backup` made, or a copy \
             of the whole directory",
            source.database.display()
        )));
    }
    let fail = |error: rusqlite::Error| failed("read the copy of the store", &error);
    let connection = read_only(&source.database).map_err(fail)?;
    let expected = progress(&connection).map_err(fail)?.1;
    copy_database(&connection, &stage.join(DATABASE))?;
    let staged = read_only(&stage.join(DATABASE)).map_err(fail)?;
    let found = progress(&staged).map_err(fail)?.1;
    if found < expected {
        return Err(StoreError::Corrupt(format!(
            "{} ends at commit {expected}, and what was read from it at {found}",
            source.database.display()
        )));
    }
    verify(&staged)
}

fn verify(connection: &Connection) -> Result<(), StoreError> {
    for row in read::teams(connection)? {
        read::verify(connection, &row.team)?;
    }
    Ok(())
}

/// Whether a database's header says that it is written by a log of its own.
fn has_log(database: &Path) -> bool {
    let mut header = [0; 20];
    let read = fs::File::open(database).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && (header[18] == 2 || header[19] == 2)
}

/// Whether a restoring of this directory was begun and has not ended.
pub(super) fn is_unfinished(dir: &Path) -> bool {
    dir.join(NOTE).exists()
}

/// Refuses to read where a restoring has not ended, and what it keeps as long as it has not.
pub(super) fn check_finished(dir: &Path) -> Result<(), StoreError> {
    let refuse = |dir: &Path| {
        Err(StoreError::Unavailable(format!(
            "a restore in {} is under way or was cut short; `aion serve` there puts back what was \
             there before, and then `aion restore` can be tried again",
            dir.display()
        )))
    };
    if is_unfinished(dir) {
        return refuse(dir);
    }
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let of = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with(KEPT));
    match dir.parent() {
        Some(parent) if dir.file_name().is_some_and(of) && is_unfinished(parent) => refuse(parent),
        Some(_) | None => Ok(()),
    }
}

/// Takes back a restoring that was cut short, by whoever holds the directory's lock.
pub(super) fn take_back(dir: &Path) -> Result<(), StoreError> {
    let fail = |error: io::Error| {
        let dir = dir.display();
        StoreError::Unavailable(format!("take back a restore in {dir} that was cut short: {error}"))
    };
    let note = match fs::read_to_string(dir.join(NOTE)) {
        Ok(note) => note,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return remove(&dir.join(STAGE)).map_err(fail);
        }
        Err(error) => return Err(fail(error)),
    };
    let Some((name, new, old)) = read_note(&note) else {
        return Err(StoreError::Corrupt(format!(
            "{} is not what a restore writes; what was in the directory before is in the newest \
             {KEPT}…",
            dir.join(NOTE).display()
        )));
    };
    let kept = dir.join(name);
    // What is kept has a new part in its place, or nothing; what was never there, a new one.
    for part in new.iter().filter(|part| !old.contains(*part) || kept.join(part).exists()) {
        remove(&dir.join(part)).map_err(fail)?;
    }
    for part in old.iter().rev().filter(|part| kept.join(part).exists()) {
        fs::rename(kept.join(part), dir.join(part)).map_err(fail)?;
    }
    sync_dir(dir).map_err(fail)?;
    remove(&dir.join(STAGE)).map_err(fail)?;
    // It is empty; where something else was put into it, that stays.
    let _ = fs::remove_dir(&kept);
    fs::remove_file(dir.join(NOTE)).and_then(|()| sync_dir(dir)).map_err(fail)
}

fn write_note(dir: &Path, kept: &str, trees: &[&str], old: &[&str]) -> io::Result<()> {
    let new: Vec<&str> = trees.iter().copied().chain([DATABASE]).collect();
    let unfinished = dir.join(STAGE).join(NOTE);
    let mut file = create_private(&unfinished)?;
    file.write_all(format!("{kept}\n{}\n{}\n", new.join(" "), old.join(" ")).as_bytes())?;
    file.sync_all()?;
    fs::rename(unfinished, dir.join(NOTE))?;
    sync_dir(dir)
}

/// The directory that keeps, the names of the new parts, and those of the old ones.
fn read_note(note: &str) -> Option<(&str, Vec<&str>, Vec<&str>)> {
    let plain = |name: &&str| !name.contains('/') && *name != "." && *name != "..";
    let mut lines = note.lines();
    let name = lines.next().filter(|name| name.starts_with(KEPT)).filter(plain)?;
    let new: Vec<&str> = lines.next()?.split_whitespace().collect();
    let old: Vec<&str> = lines.next()?.split_whitespace().collect();
    let fits = new.contains(&DATABASE) && new.iter().chain(&old).all(plain);
    fits.then_some((name, new, old))
}
