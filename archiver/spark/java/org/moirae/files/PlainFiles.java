package org.moirae.files;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/**
 * {@link RawFiles} without {@code .crc} files: checkpoints and tables have checksums of their own.
 *
 * <p>It remains a LocalFileSystem, because Hadoop casts it to that ({@code FileSystem.getLocal}, which the RocksDB
 * state store calls). The {@code .crc} file of another program is removed when its file is written.
 */
public class PlainFiles extends LocalFileSystem {
  public PlainFiles() {
    super(new RawFiles());
  }

  @Override
  public void initialize(URI name, Configuration configuration) throws IOException {
    super.initialize(name, configuration);
    setWriteChecksum(false);
    setVerifyChecksum(false);
  }

  /** The same for {@code FileContext}, which Spark's checkpoints use. */
  public static class Context extends DelegateToFileSystem {
    private final RawFiles files;

    public Context(URI name, Configuration configuration) throws IOException, URISyntaxException {
      this(name, configuration, new RawFiles());
    }

    private Context(URI name, Configuration configuration, RawFiles files) throws IOException, URISyntaxException {
      super(name, files, configuration, "file", false);
      this.files = files;
    }

    /** The original checks for the target or deletes it before it renames, which is not atomic. */
    @Override
    public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
      if (!overwrite || !files.isPlain(source, target)) {
        super.renameInternal(source, target, overwrite);
      } else {
        files.replace(source, target);
      }
    }

    @Override
    public void renameInternal(Path source, Path target) throws IOException {
      if (!files.isPlain(source, target)) {
        super.renameInternal(source, target);
        return;
      }
      try {
        files.publish(source, target);
      } catch (FileAlreadyExistsException taken) {
        throw new org.apache.hadoop.fs.FileAlreadyExistsException("rename destination " + target + " already exists.");
      } catch (NoSuchFileException absent) {
        super.renameInternal(source, target);
      }
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
