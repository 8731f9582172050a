//! Cached states beside the log; never needed, and never trusted without their checksum.

use aion_core::id::{Seq, TeamId};
use rusqlite::{Connection, OptionalExtension};

use crate::chain::Link;
use crate::error::StoreError;
use crate::event_store::Snapshot;
use crate::failpoint;
use crate::memory::SNAPSHOT_SPACING;
use crate::sqlite::batch::Ledger;
use crate::sqlite::read::end;
use crate::sqlite::rows::{signed, unsigned};

/// Keeps a snapshot inside the transaction that is open; the newest of each distance stays.
pub(crate) fn keep(
    connection: &Connection,
    ledger: &mut Ledger,
    team: &TeamId,
    snapshot: &Snapshot,
) -> rusqlite::Result<Result<(), StoreError>> {
    let Some(head) = ledger.heads.get(connection, team)? else {
        return Ok(Err(StoreError::NoTeam(team.clone())));
    };
    if snapshot.seq.0 > head.seq {
        return Ok(Err(StoreError::Conflict {
            team: team.clone(),
            expected: snapshot.seq,
            actual: Seq(head.seq),
        }));
    }
    failpoint::hit("store.before_snapshot");
    connection
        .prepare_cached(
            "INSERT INTO snapshots (team, bucket, seq, state_version, checksum, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (team, bucket) DO UPDATE SET
                seq = excluded.seq, state_version = excluded.state_version,
                checksum = excluded.checksum, bytes = excluded.bytes
             WHERE excluded.seq >= seq",
        )?
        .execute((
            head.key,
            signed(snapshot.seq.0 / SNAPSHOT_SPACING),
            signed(snapshot.seq.0),
            snapshot.state_version,
            &checksum(snapshot).0[..],
            &snapshot.bytes[..],
        ))?;
    Ok(Ok(()))
}

/// Covers all that a snapshot says.
fn checksum(snapshot: &Snapshot) -> Link {
    let mut tag = [0; 32];
    tag[..8].copy_from_slice(&snapshot.seq.0.to_le_bytes());
    tag[8..12].copy_from_slice(&snapshot.state_version.to_le_bytes());
    Link(tag).next(&snapshot.bytes)
}

/// The newest undamaged snapshot at or before `at`.
pub(crate) fn newest(
    connection: &Connection,
    team: &TeamId,
    at: Seq,
) -> Result<Option<Snapshot>, StoreError> {
    let end = match end(connection, team) {
        Ok(end) => end,
        Err(StoreError::NoTeam(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut at = at.0.min(end.seq);
    loop {
        let found = connection
            .prepare_cached(
                "SELECT seq, state_version, checksum, bytes FROM snapshots
                 WHERE team = ?1 AND seq <= ?2 ORDER BY bucket DESC LIMIT 1",
            )
            .and_then(|mut query| {
                query
                    .query_row((end.key, signed(at)), |row| {
                        let snapshot = Snapshot {
                            seq: Seq(unsigned(row.get(0)?)),
                            state_version: row.get(1)?,
                            bytes: row.get(3)?,
                        };
                        Ok((snapshot, Link(row.get(2)?)))
                    })
                    .optional()
            });
        match found {
            Ok(Some((snapshot, kept))) if checksum(&snapshot) == kept => {
                return Ok(Some(snapshot));
            }
            Ok(Some((snapshot, _))) if snapshot.seq.0 > 0 => {
                tracing::warn!(%team, seq = %snapshot.seq, "a damaged snapshot is ignored");
                at = snapshot.seq.0 - 1;
            }
            Ok(_) => return Ok(None),
            Err(error) => {
                // A cache that cannot be read is no reason not to read the log.
                tracing::warn!(%team, %error, "snapshots cannot be read and are ignored");
                return Ok(None);
            }
        }
    }
}
