package org.moirae.files;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system without child processes, and with atomic renames.
 *
 * <p>Without its native library, Hadoop forks {@code chmod} and {@code readlink} for each file it writes: most of
 * the time of a small micro-batch. java.nio does the same without a process.
 *
 * <p>As on HDFS a rename never replaces a file; the original replaces it silently. The new name is a
 * hard link, which fails if the name exists: of two processes that commit the same version, one
 * fails. A crash before the old name is removed leaves both names; the file is never missing.
 */
class RawFiles extends RawLocalFileSystem {
  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    var rights = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
        + permission.getOtherAction().SYMBOL;
    Files.setPosixFilePermissions(nio(path), PosixFilePermissions.fromString(rights));
  }

  @Override
  public FileStatus getFileLinkStatus(Path path) throws IOException {
    return Files.isSymbolicLink(nio(path)) ? super.getFileLinkStatus(path) : getFileStatus(path);
  }

  @Override
  public boolean rename(Path source, Path target) throws IOException {
    if (!isPlain(source, target)) {
      return super.rename(source, target);
    }
    try {
      publish(source, target);
      return true;
    } catch (FileAlreadyExistsException taken) {
      return false;
    } catch (NoSuchFileException absent) {
      return super.rename(source, target);
    }
  }

  /** Whether source and target are plain files; folders and links are left to the original. */
  boolean isPlain(Path source, Path target) {
    return Files.isRegularFile(nio(source), LinkOption.NOFOLLOW_LINKS) && !Files.isDirectory(nio(target));
  }

  /** Renames a file; fails if the target exists, also if another process is creating it. */
  void publish(Path source, Path target) throws IOException {
    try {
      Files.createLink(nio(target), nio(source));
    } catch (FileAlreadyExistsException | NoSuchFileException e) {
      throw e;
    } catch (UnsupportedOperationException | IOException e) {
      // This file system has no hard links: rename as the original does, which is not atomic.
      if (Files.exists(nio(target), LinkOption.NOFOLLOW_LINKS)) {
        throw new FileAlreadyExistsException(target.toString());
      }
      replace(source, target);
      return;
    }
    Files.delete(nio(source));
  }

  /** Renames a file and replaces the target if it exists. */
  void replace(Path source, Path target) throws IOException {
    Files.move(nio(source), nio(target), StandardCopyOption.ATOMIC_MOVE);
  }

  private java.nio.file.Path nio(Path path) {
    return pathToFile(path).toPath();
  }
}
