package org.moirae.files;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The local file system without child processes.
 *
 * <p>Without its native library, Hadoop forks {@code chmod} and {@code readlink} for each file it writes: most of
 * the time of a small micro-batch. java.nio does the same in place. No {@code .crc} files are written: checkpoints
 * and tables carry checks of their own.
 */
public class PlainFiles extends RawLocalFileSystem {
  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    var rights = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
        + permission.getOtherAction().SYMBOL;
    Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(rights));
  }

  @Override
  public FileStatus getFileLinkStatus(Path path) throws IOException {
    if (Files.isSymbolicLink(pathToFile(path).toPath())) {
      return super.getFileLinkStatus(path);
    }
    return getFileStatus(path);
  }

  /** The same for {@code FileContext}, which Spark's checkpoints use. */
  public static class Context extends org.apache.hadoop.fs.DelegateToFileSystem {
    public Context(URI uri, org.apache.hadoop.conf.Configuration configuration)
        throws IOException, java.net.URISyntaxException {
      super(uri, new PlainFiles(), configuration, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public boolean isValidName(String source) {
      return true;
    }
  }
}
