//! The folder all blobs rest in and the folders below it, reached so that nothing follows a
//! symbolic link out of it: each is opened by name within the one above, never by a path.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use overspill::store::{BlobStat, StoreError};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW,
    fchmod, flock, fstat, futimens, linkat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::fault::{refused, sort};

const FOLDER_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// How often a step is tried that another process can undo: each try fails only if somebody
/// removes a name at that very moment.
pub(super) const TRIES: usize = 64;

/// The permission bits of everyone but the owner.
const OTHERS: u32 = 0o077;

/// Where the root is. It is opened and checked anew for each operation, so that one removed or
/// laid open meanwhile is noticed.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
}

/// An open folder: the root, or one in it.
#[derive(Debug)]
pub(super) struct Folder {
    fd: File,
}

/// Holds the lock on a folder until it is dropped.
#[derive(Debug)]
pub(super) struct Lock<'a> {
    folder: &'a Folder,
}

/// What linking a blob under its name came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// It has its name.
    Made,
    /// Another blob has the name.
    Taken,
    /// The blob, or the folder it was to be linked in, is not there any more.
    Gone,
}

impl Root {
    /// The root at `path`, made absolute now: the current directory may change.
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).map_err(|error| sort("find its folder", error))?;
        // Taken apart and put together, it loses a trailing slash, which would make the system
        // follow a link at its end.
        Ok(Self { path: path.components().collect() })
    }

    /// Opens the root if it is there and nobody else's.
    pub(super) fn open(&self) -> Result<Option<Folder>, StoreError> {
        let folder = match open_folder(CWD, &self.path) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) if is_no_folder(error) => {
                let is_link = self.path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
                return Err(if is_link {
                    refused("its folder is a symbolic link", "name the folder itself", None)
                } else {
                    refused("its folder is no folder", "name another", None)
                });
            }
            Err(error) => return Err(sort("open its folder", error)),
        };
        let meta = folder.fd.metadata().map_err(|error| sort("open its folder", error))?;
        if meta.uid() != rustix::process::geteuid().as_raw() {
            let hint = "name a folder of your own, or chown it to yourself";
            return Err(refused("its folder belongs to another user", hint, None));
        }
        if meta.mode() & OTHERS != 0 {
            let what =
                format!("its folder is open to other users (mode {:04o})", meta.mode() & 0o7777);
            return Err(refused(what, "chmod 700 the store's folder", None));
        }
        Ok(Some(folder))
    }

    /// Opens the root, and makes it where it is missing.
    pub(super) fn open_or_make(&self) -> Result<Folder, StoreError> {
        if let Some(folder) = self.open()? {
            return Ok(folder);
        }
        let failed = |error: io::Error| sort("make its folder", error);
        let is_ours = make_with_parents(&self.path).map_err(failed)?;
        let folder = self.open()?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        if is_ours {
            fchmod(&folder.fd, FOLDER_MODE).map_err(|error| failed(error.into()))?;
        }
        Ok(folder)
    }
}

impl Folder {
    /// Opens the folder `name` in this one, if it is there. Anything else of that name, a
    /// symbolic link above all, is refused.
    pub(super) fn folder(&self, name: &str) -> Result<Option<Self>, StoreError> {
        match open_folder(&self.fd, name) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) if is_no_folder(error) => Err(not_ours(name, "folder")),
            Err(error) => Err(sort("open a folder", error)),
        }
    }

    /// Opens the folder `name` in this one, if it is there and a folder.
    pub(super) fn folder_if_one(&self, name: &str) -> Result<Option<Self>, StoreError> {
        match open_folder(&self.fd, name) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error == Errno::NOENT || is_no_folder(error) => Ok(None),
            Err(error) => Err(sort("open a folder", error)),
        }
    }

    /// Opens the folder `name` in this one, and makes it where it is missing. Returns whether it
    /// was, so that this folder is to be synced.
    pub(super) fn folder_or_make(&self, name: &str) -> Result<(Self, bool), StoreError> {
        let failed = |error: io::Error| sort("make a folder", error);
        let mut is_new = false;
        for _ in 0..TRIES {
            if let Some(folder) = self.folder(name)? {
                if is_new {
                    fchmod(&folder.fd, FOLDER_MODE).map_err(|error| failed(error.into()))?;
                }
                return Ok((folder, is_new));
            }
            match mkdirat(&self.fd, name, FOLDER_MODE) {
                // Where another process was faster, it may not have come to sync it yet.
                Ok(()) | Err(Errno::EXIST) => is_new = true,
                Err(error) => return Err(failed(error.into())),
            }
        }
        Err(failed(io::Error::other("each was removed at once")))
    }

    /// Opens the file `name` in this folder for reading, if it is there. Anything else of that
    /// name is refused.
    pub(super) fn file(&self, name: &str) -> Result<Option<File>, StoreError> {
        match self.open_file(name) {
            Ok(Some(file)) => Ok(Some(file)),
            Ok(None) => Err(not_ours(name, "file")),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(sort("open a blob", error)),
        }
    }

    /// Opens the file `name` in this folder for reading, if it is there and a file.
    pub(super) fn file_if_one(&self, name: &str) -> Result<Option<File>, StoreError> {
        match self.open_file(name) {
            Ok(file) => Ok(file),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(sort("open a blob", error)),
        }
    }

    /// The length and age of the file `name` in this folder, if it is there and a file.
    pub(super) fn stat_if_file(&self, name: &str) -> Result<Option<BlobStat>, StoreError> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => {
                let seconds: i64 = stat.st_mtime;
                let whole = Duration::from_secs(seconds.unsigned_abs());
                let whole = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
                let modified = whole + Duration::new(0, stat.st_mtime_nsec as u32);
                Ok(Some(BlobStat::new(stat.st_size as u64, modified)))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(sort("look at a blob", error)),
        }
    }

    /// `None` where it is no regular file.
    fn open_file(&self, name: &str) -> Result<Option<File>, Errno> {
        // Without `NONBLOCK`, opening a FIFO would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, Mode::empty()).map(File::from) {
            Ok(file) => {
                let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
                Ok(kind.is_file().then_some(file))
            }
            // A symbolic link, as Linux and as FreeBSD say it; a socket.
            Err(Errno::LOOP | Errno::MLINK | Errno::NXIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the file `name` in this folder for reading and for writing at its end, and makes it
    /// where it is missing. Anything else of that name is refused.
    pub(super) fn file_or_make(&self, name: &str) -> Result<File, StoreError> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::APPEND
            | OFlags::NONBLOCK
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let failed = |error| sort("open a file", error);
        match openat(&self.fd, name, flags, FILE_MODE).map(File::from) {
            Ok(file) => {
                let kind = FileType::from_raw_mode(fstat(&file).map_err(failed)?.st_mode);
                if kind.is_file() { Ok(file) } else { Err(not_ours(name, "file")) }
            }
            Err(Errno::LOOP | Errno::MLINK | Errno::NXIO | Errno::ISDIR) => {
                Err(not_ours(name, "file"))
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Gives the file `from` the name `to` and no other, in the place of what has that name.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        renameat(&self.fd, from, &self.fd, to).map_err(|error| sort("rename a file", error))
    }

    /// Makes the file `name` in this folder, for writing; `None` where the name is taken, or the
    /// folder removed.
    pub(super) fn new_file(&self, name: &str) -> Result<Option<File>, StoreError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.fd, name, flags, FILE_MODE) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(Errno::EXIST | Errno::NOENT) => Ok(None),
            Err(error) => Err(sort("open a new blob", error)),
        }
    }

    /// Gives the file `from` in `folder` the further name `to` in this one. Never overwrites.
    pub(super) fn link(&self, folder: &Self, from: &str, to: &str) -> Result<Link, StoreError> {
        match linkat(&folder.fd, from, &self.fd, to, AtFlags::empty()) {
            Ok(()) => Ok(Link::Made),
            Err(Errno::EXIST) => Ok(Link::Taken),
            Err(Errno::NOENT) => Ok(Link::Gone),
            // What Linux and others say where the file system has no hard links.
            Err(error @ (Errno::PERM | Errno::OPNOTSUPP)) => Err(refused(
                "cannot commit on a file system without hard links",
                "choose a store's folder on one that has them",
                Some(error.into()),
            )),
            Err(error) => Err(sort("commit a blob", error)),
        }
    }

    /// Removes the file `name`; `false` where there is none.
    pub(super) fn remove(&self, name: &str) -> Result<bool, StoreError> {
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(sort("delete a blob", error)),
        }
    }

    /// Removes the folder `name` if it is empty. One that stays does no harm, so nothing is
    /// said of a failure; a writer that was about to use it makes it anew.
    pub(super) fn remove_folder_if_empty(&self, name: &str) {
        let _ = unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
    }

    /// The names in this folder, in no order; a name that is no text is none of ours.
    pub(super) fn names(&self) -> Result<Vec<String>, StoreError> {
        let failed = |error| sort("list a folder", error);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            match entry.map_err(failed)?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Ok(names)
    }

    /// Makes the names in this folder durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        sync_folder(&self.fd).map_err(|error| sort("sync a folder", error))
    }

    /// Waits until nobody deletes from this folder.
    pub(super) fn lock_shared(&self) -> Result<Lock<'_>, StoreError> {
        self.lock(FlockOperation::LockShared)
    }

    /// Waits until nobody else links, renews or deletes in this folder.
    pub(super) fn lock_alone(&self) -> Result<Lock<'_>, StoreError> {
        self.lock(FlockOperation::LockExclusive)
    }

    /// Takes the lock of [`lock_alone`](Self::lock_alone) if nobody has it.
    pub(super) fn try_lock_alone(&self) -> Result<Option<Lock<'_>>, StoreError> {
        match retry_on_intr(|| flock(&self.fd, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(Some(Lock { folder: self })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(sort("lock a folder", error)),
        }
    }

    fn lock(&self, operation: FlockOperation) -> Result<Lock<'_>, StoreError> {
        retry_on_intr(|| flock(&self.fd, operation))
            .map_err(|error| sort("lock a folder", error))?;
        Ok(Lock { folder: self })
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // It cannot fail on an open folder, and the lock goes with the folder in any case.
        let _ = flock(&self.folder.fd, FlockOperation::Unlock);
    }
}

/// The length and age of an open file.
pub(super) fn stat_of(file: &File) -> Result<BlobStat, StoreError> {
    let failed = |error| sort("look at a blob", error);
    let meta = file.metadata().map_err(failed)?;
    Ok(BlobStat::new(meta.len(), meta.modified().map_err(failed)?))
}

/// Sets a file's modification time to now.
pub(super) fn touch(file: &File) -> Result<(), StoreError> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    futimens(file, &Timestamps { last_access: now, last_modification: now })
        .map_err(|error| sort("renew a blob's age", error))
}

/// Sets a file's permissions to those of a blob, whatever the process's mask left of them.
pub(super) fn make_private(file: &File) -> Result<(), StoreError> {
    fchmod(file, FILE_MODE).map_err(|error| sort("open a new blob", error))
}

fn open_folder<P: rustix::path::Arg>(within: impl AsFd, name: P) -> Result<Folder, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(within, name, flags, Mode::empty()).map(|fd| Folder { fd: File::from(fd) })
}

/// Whether opening a folder failed since a symbolic link or something else is in its place.
fn is_no_folder(error: Errno) -> bool {
    matches!(error, Errno::NOTDIR | Errno::LOOP | Errno::MLINK)
}

fn not_ours(name: &str, kind: &str) -> StoreError {
    let what = format!("{name} in its folder is no {kind}; the store put nothing like it there");
    refused(what, "look at it, and remove it", None)
}

/// Makes a folder and its missing parents, durably. Returns whether it was missing itself.
fn make_with_parents(path: &Path) -> io::Result<bool> {
    let made = match mkdirat(CWD, path, FOLDER_MODE) {
        Err(Errno::NOENT) if let Some(parent) = path.parent() => {
            make_with_parents(parent)?;
            mkdirat(CWD, path, FOLDER_MODE)
        }
        result => result,
    };
    match made {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    // A parent that may not be read cannot be synced by this user at all.
    if let Some(Ok(parent)) = path.parent().map(File::open) {
        sync_folder(&parent)?;
    }
    Ok(true)
}

fn sync_folder(folder: &File) -> io::Result<()> {
    match folder.sync_all() {
        // Some network file systems have no sync for folders, since they are always in sync.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}
