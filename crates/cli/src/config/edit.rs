//! Changes one setting in a file, and leaves everything else in it as it is, comments too.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use aion_api::Exit;
use aion_core::rule::Rule;
use toml_edit::{Array, DocumentMut, Item, Table, TomlError, value};

use super::keys::{Key, Kind};
use crate::exit::Failure;
use crate::replace::{Within, replace};

/// Sets a value that was checked; without one it is taken out.
pub(crate) fn set(
    path: &Path,
    within: Within<'_>,
    key: &Key,
    text: Option<&str>,
) -> Result<(), Failure> {
    edit(path, within, |before| changed(before, key, text))
}

/// Adds a rule to those that the person's own file allows.
pub(crate) fn allow(path: &Path, rule: &Rule) -> Result<(), Failure> {
    edit(path, Within::Own, |before| allowed(before, rule))
}

/// Puts what a change makes of a file's text in its place; a file that is not there is an empty one.
fn edit(
    path: &Path,
    within: Within<'_>,
    change: impl FnOnce(&str) -> Result<String, TomlError>,
) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure::io(format!("write {}", path.display()), &error);
    let file = within.file(path).map_err(fail)?;
    let before = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::io(format!("read {}", path.display()), &error)),
    };
    let after = change(&before).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        Failure::new(Exit::Usage, "config.unreadable", message)
    })?;
    replace(&file, after.as_bytes(), 0o666).map_err(fail)
}

fn allowed(before: &str, rule: &Rule) -> Result<String, TomlError> {
    let mut document: DocumentMut = before.parse()?;
    let place = document.entry("permissions").or_insert(Item::Table(Table::new()));
    if let Some(fields) = place.as_table_like_mut() {
        let list = fields.entry("allow").or_insert(value(Array::new()));
        let text = rule.to_string();
        if let Some(list) = list.as_array_mut()
            && !list.iter().any(|known| known.as_str() == Some(&text))
        {
            list.push(text);
        }
    }
    Ok(document.to_string())
}

fn changed(before: &str, key: &Key, text: Option<&str>) -> Result<String, TomlError> {
    let mut document: DocumentMut = before.parse()?;
    let (tables, field) = key.name.rsplit_once('.').unwrap_or(("", key.name));
    let mut place = Some(document.as_item_mut());
    for (depth, table) in tables.split('.').enumerate() {
        let last = depth == tables.matches('.').count();
        let fields = place.and_then(Item::as_table_like_mut);
        place = fields.map(|fields| {
            let mut made = Table::new();
            // A table that only holds tables has no line of its own.
            made.set_implicit(!last);
            fields.entry(table).or_insert(Item::Table(made))
        });
    }
    if let Some(fields) = place.and_then(Item::as_table_like_mut) {
        match text {
            Some(text) => {
                let item = match (&key.kind, text.parse::<i64>()) {
                    (Kind::Port, Ok(number)) => value(number),
                    (Kind::List, _) => {
                        value(Key::list(text).unwrap_or_default().iter().collect::<Array>())
                    }
                    _ => value(text),
                };
                fields.insert(field, item);
            }
            None => {
                fields.remove(field);
            }
        }
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::keys::find;
    use super::*;

    #[test]
    fn a_change_leaves_the_rest_as_it_is() {
        let check = |before: &str, name: &str, text: Option<&str>, expect: &str| {
            assert_eq!(changed(before, find(name).unwrap(), text).unwrap(), expect);
        };
        check("", "daemon.port", Some("8000"), "[daemon]\nport = 8000\n");
        check(
            "# mine\n[run]\nmax_time = \"1m\" # short\n",
            "run.on_approval",
            Some("deny"),
            "# mine\n[run]\nmax_time = \"1m\" # short\non_approval = \"deny\"\n",
        );
        check("[run]\nmax_time = \"1m\"\n", "run.max_time", None, "[run]\n");
        check(
            "",
            "providers.openai.model",
            Some("gpt-5.2"),
            "[providers.openai]\nmodel = \"gpt-5.2\"\n",
        );
        check(
            "[providers.openai]\nmodel = \"a\"\n",
            "providers.ollama.model",
            Some("b"),
            "[providers.openai]\nmodel = \"a\"\n\n[providers.ollama]\nmodel = \"b\"\n",
        );
        check("run.max_time = \"1m\"\n", "run.max_time", Some("2m"), "run.max_time = \"2m\"\n");
    }

    #[test]
    fn a_rule_is_added_once_to_what_is_there() {
        let rule = "Bash(cargo test:*)".parse().unwrap();
        let once = allowed("# mine\n[run]\nmax_time = \"1m\"\n", &rule).unwrap();
        let expect =
            "# mine\n[run]\nmax_time = \"1m\"\n\n[permissions]\nallow = [\"Bash(cargo test:*)\"]\n";
        assert_eq!(once, expect);
        assert_eq!(allowed(&once, &rule).unwrap(), expect);
        let more = allowed(&once, &"Edit".parse().unwrap()).unwrap();
        assert!(more.ends_with("allow = [\"Bash(cargo test:*)\", \"Edit\"]\n"), "{more}");
    }

    #[test]
    fn a_link_that_a_repository_brings_along_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (home, root) = (dir.path().join("home"), dir.path().join("work"));
        let path = root.join(".aion/config.toml");
        fs::create_dir_all(root.join(".aion")).unwrap();
        fs::write(&home, "mine = 1\n").unwrap();
        fs::write(&path, "x = \"$(true)\"\n").unwrap();
        symlink(&home, root.join(".aion/config.toml.new")).unwrap();
        let key = find("run.max_time").unwrap();
        set(&path, Within::Project(&root), key, Some("1m")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("max_time"));
        fs::remove_file(&path).unwrap();
        symlink(&home, &path).unwrap();
        set(&path, Within::Project(&root), key, Some("1m")).unwrap_err();
        assert_eq!(fs::read_to_string(&home).unwrap(), "mine = 1\n");
        set(&path, Within::Own, key, Some("1m")).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert!(fs::read_to_string(&home).unwrap().contains("max_time"));
    }
}
