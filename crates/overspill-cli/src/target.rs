//! A file that is written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Where something is to be written, looked at before it is made.
#[derive(Debug)]
pub(crate) struct Target {
    /// As it was named.
    path: PathBuf,
    /// Through a link to what it stands for.
    real: PathBuf,
    there: Option<fs::Metadata>,
}

impl Target {
    /// Fails where nothing could be written.
    pub(crate) fn at(path: &Path) -> Result<Self, Failure> {
        let named = path.display();
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
            && fs::metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            let folder = folder.display();
            return Err(Failure::new(format!(
                "cannot write {named}: the folder {folder} does not exist"
            ))
            .hint("make it, or name a file elsewhere"));
        }
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let there = fs::metadata(&real).ok();
        if there.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(Failure::new(format!("{named} is a folder")).hint("name a file in it"));
        }
        Ok(Self { path: path.to_owned(), real, there })
    }

    /// The file that is there already, if there is one: not a device or a pipe, which are written
    /// into.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.there.as_ref().filter(|there| there.is_file()).map(|_| &*self.real)
    }

    /// What `write` writes; until all of it is there, there is no file, or the one there was.
    /// `replace` says whether one that is there by then may go; if not, `taken` says so.
    pub(crate) fn write<T>(
        self,
        replace: bool,
        taken: impl FnOnce(&Path) -> Failure,
        write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { path, real, there } = self;
        let cannot = |error: io::Error| {
            Failure::from(error).context(format!("cannot write {}", path.display()))
        };
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let mut file = fs::OpenOptions::new().write(true).open(&real).map_err(cannot)?;
            return write(&mut |piece| file.write_all(piece).map_err(cannot));
        }
        let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
            // Without the name it has aside, which says nothing to anyone.
            .map_err(|error| cannot(error.kind().into()))?;
        let done = write(&mut |piece| file.write_all(piece).map_err(cannot))?;
        if replace {
            if let Some(there) = there {
                file.as_file().set_permissions(there.permissions()).map_err(cannot)?;
            }
            file.persist(&real).map_err(|error| cannot(error.error))?;
        } else {
            file.persist_noclobber(&real).map_err(|error| match error.error.kind() {
                io::ErrorKind::AlreadyExists => taken(&path),
                _ => cannot(error.error),
            })?;
        }
        Ok(done)
    }
}
