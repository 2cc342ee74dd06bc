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
 * Hadoop's local file system without its child processes, and with renames that are one step.
 *
 * <p>Without its native library, Hadoop forks {@code chmod} and {@code readlink} for each file it writes: most of
 * the time of a small micro-batch. java.nio does the same in place.
 *
 * <p>A rename never replaces a file, as on HDFS; the original replaces it without a word. The new name is a hard link,
 * which fails where the name is taken: of two processes that commit the same version, one is refused. A crash before
 * the old name is removed leaves it behind, never a hole.
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

  /** Whether this is about a file and a file's name; folders and links are left to the original. */
  boolean isPlain(Path source, Path target) {
    return Files.isRegularFile(nio(source), LinkOption.NOFOLLOW_LINKS) && !Files.isDirectory(nio(target));
  }

  /** Gives a file its final name; fails where the name is taken, whoever else is taking it at this moment. */
  void publish(Path source, Path target) throws IOException {
    try {
      Files.createLink(nio(target), nio(source));
    } catch (FileAlreadyExistsException | NoSuchFileException e) {
      throw e;
    } catch (UnsupportedOperationException | IOException e) {
      // No hard links here: as the original, which another process may overtake.
      if (Files.exists(nio(target), LinkOption.NOFOLLOW_LINKS)) {
        throw new FileAlreadyExistsException(target.toString());
      }
      replace(source, target);
      return;
    }
    Files.delete(nio(source));
  }

  /** Gives a file its final name in place of the file that has it, if any. */
  void replace(Path source, Path target) throws IOException {
    Files.move(nio(source), nio(target), StandardCopyOption.ATOMIC_MOVE);
  }

  private java.nio.file.Path nio(Path path) {
    return pathToFile(path).toPath();
  }
}
