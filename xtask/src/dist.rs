//! Makes a release that a person can install without building; publishes nothing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::empty_root;
use crate::notices;
use crate::steps;
use crate::suite;

/// The only platform of which a release is made.
pub const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// What a release is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The program that is released.
    pub binary: PathBuf,
    /// Its version, as the workspace says it.
    pub version: String,
    /// The oldest glibc that the program runs with.
    pub glibc: String,
    /// The licences of what is linked into the program.
    pub notices: String,
    /// The time that all files of the archive have, in seconds since 1970.
    pub time: u64,
}

/// The files of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The folder that holds them.
    pub folder: PathBuf,
    /// The version.
    pub version: String,
    /// Name of the archive.
    pub archive: String,
}

/// Builds the program, or takes `binary`, and makes a release of it in `out`.
pub fn make(root: &Path, out: Option<&Path>, binary: Option<&Path>) -> Result<Release> {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |set| root.join(set));
    let binary = if let Some(binary) = binary {
        binary.to_path_buf()
    } else {
        steps::run(root, &suite::product())?;
        target.join("release").join("aion")
    };
    let out = out.map_or_else(|| target.join("dist"), Path::to_path_buf);
    let version = workspace_version(root)?;
    let glibc = needed_glibc(&binary)?;
    let notices = notices::of(root, "aion")?;
    let time = time(root)?;
    let source = Source { binary, version, glibc: glibc.clone(), notices, time };
    let release = pack(root, &source, &out)?;
    for name in [release.archive.as_str(), "SHA256SUMS", "install.sh"] {
        let path = release.folder.join(name);
        let size = fs::metadata(&path).with_context(|| format!("look at {name}"))?.len();
        steps::say(&format!("{size:>10}  {}", path.display()));
    }
    steps::say(&format!("Needs Linux on x86_64 with glibc {glibc} or newer."));
    Ok(release)
}

/// Makes a release and tries it in a root that holds nothing else.
pub fn check(root: &Path, binary: Option<&Path>) -> Result<()> {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |set| root.join(set));
    let place = target.join("dist-check");
    let release = make(root, Some(&place.join("release")), binary)?;
    empty_root::attempt(root, &release, &place.join("root"))
}

/// Makes a release. The same source gives the same bytes.
pub fn pack(root: &Path, source: &Source, out: &Path) -> Result<Release> {
    let Source { binary, version, glibc, notices, time } = source;
    let told = text(capture(Command::new(binary).arg("--version").env_clear())?)?;
    if told.trim() != format!("aion {version}") {
        bail!(
            "{} says that it is '{}', the workspace is version {version}: build it again",
            binary.display(),
            told.trim()
        );
    }
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    let out = fs::canonicalize(out).with_context(|| format!("find {}", out.display()))?;
    let name = format!("aion-{version}-{PLATFORM}");
    let archive = format!("{name}.tar.gz");
    let staging = out.join("staging");
    if staging.exists() {
        fs::remove_dir_all(&staging).context("remove what a stopped run left")?;
    }
    lay_out(root, binary, notices, &staging.join(&name))?;

    let tar = format!("{name}.tar");
    let times = format!("--mtime=@{time}");
    let fixed = ["--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"];
    let mut command = Command::new("tar");
    command.current_dir(&out).env("LC_ALL", "C").args(fixed);
    command.args([&times, "--mode=u=rwX,go=rX", "-C", "staging", "-cf", &tar, &name]);
    capture(&mut command)?;
    capture(Command::new("gzip").current_dir(&out).args(["-9", "-n", "-f", &tar]))?;
    fs::remove_dir_all(&staging).context("remove what is in the archive now")?;

    let installer = fs::read_to_string(root.join("packaging/install.sh"))
        .context("packaging/install.sh cannot be read")?
        .replace("@VERSION@", version)
        .replace("@GLIBC@", glibc);
    fs::write(out.join("install.sh"), installer).context("write install.sh")?;
    let sums = capture(Command::new("sha256sum").current_dir(&out).args([&archive, "install.sh"]))?;
    fs::write(out.join("SHA256SUMS"), sums).context("write SHA256SUMS")?;
    Ok(Release { folder: out, version: version.clone(), archive })
}

/// Puts the files of an archive where they lie below a prefix.
fn lay_out(root: &Path, binary: &Path, notices: &str, top: &Path) -> Result<()> {
    let put = |place: &str, bytes: &[u8]| -> Result<()> {
        let path = top.join(place);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))
    };
    let written = [
        ("share/man/man1/aion.1", &["man"][..]),
        ("share/bash-completion/completions/aion", &["completions", "bash"]),
        ("share/zsh/site-functions/_aion", &["completions", "zsh"]),
        ("share/fish/vendor_completions.d/aion.fish", &["completions", "fish"]),
    ];
    for (place, arguments) in written {
        // The program sees no settings of the person who makes the release.
        let bytes = capture(Command::new(binary).args(arguments).env_clear())?;
        if bytes.is_empty() {
            bail!("`aion {}` wrote nothing", arguments.join(" "));
        }
        put(place, &bytes)?;
    }
    for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        let bytes = fs::read(root.join(name)).with_context(|| format!("{name} cannot be read"))?;
        put(&format!("share/doc/aion/{name}"), &bytes)?;
    }
    put("share/doc/aion/THIRD-PARTY.txt", notices.as_bytes())?;
    // A copy keeps that the file is a program.
    fs::create_dir_all(top.join("bin")).context("make the program's folder")?;
    fs::copy(binary, top.join("bin/aion"))
        .with_context(|| format!("{} cannot be copied", binary.display()))?;
    Ok(())
}

/// The version in the workspace's manifest.
fn workspace_version(root: &Path) -> Result<String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("read Cargo.toml")?;
    let manifest: toml::Table = manifest.parse().context("Cargo.toml is no TOML")?;
    let version = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("package"))
        .and_then(|package| package.get("version"))
        .and_then(toml::Value::as_str);
    version.map(str::to_owned).context("Cargo.toml names no version for the workspace")
}

/// The oldest glibc that has all versions of symbols which a program asks for.
fn needed_glibc(binary: &Path) -> Result<String> {
    let symbols = capture(Command::new("objdump").arg("-T").arg(binary))
        .context("objdump (Debian: binutils) has to read a release's program")?;
    newest_glibc(&text(symbols)?)
        .with_context(|| format!("{} asks for no glibc: it is no release", binary.display()))
}

/// The highest `GLIBC_` version in a listing of dynamic symbols.
fn newest_glibc(symbols: &str) -> Option<String> {
    symbols
        .split(|c: char| c.is_whitespace() || "()".contains(c))
        .filter_map(|word| word.strip_prefix("GLIBC_"))
        .filter_map(|version| {
            let (major, minor) = version.split_once('.')?;
            let minor = minor.split('.').next()?;
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        })
        .max()
        .map(|(major, minor)| format!("{major}.{minor}"))
}

/// The time of a release: `SOURCE_DATE_EPOCH` where it is set, else that of the last commit.
fn time(root: &Path) -> Result<u64> {
    let told = match env::var("SOURCE_DATE_EPOCH") {
        Ok(told) => told,
        Err(_) => text(capture(Command::new("git").current_dir(root).args([
            "log",
            "-1",
            "--format=%ct",
        ]))?)?,
    };
    told.trim().parse().with_context(|| format!("'{}' is no time in seconds", told.trim()))
}

/// What a command writes to standard output.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{program}` cannot be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program}` ended with {}: {}", output.status, said.trim());
    }
    Ok(output.stdout)
}

/// Output that has to be text.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).context("a program's output is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_found_by_number() {
        let symbols = "\
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.4)  __stack_chk_fail
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) pthread_create
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) free
0000000000000000      DF *UND*\t0000000000000000 (GCC_3.0)    _Unwind_Resume
0000000000000000  w   D  *UND*\t0000000000000000  Base        __gmon_start__";
        assert_eq!(newest_glibc(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc("no dynamic symbols"), None);
    }
}
