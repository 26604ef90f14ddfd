package io.joinsight.delivery;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The open spool folder: not a link, owned by the driver's user, closed to all other users, and the same folder for all
 * operations even if it is renamed. So no other user can have added, read or replaced files in it.
 *
 * <p>Only regular files of the same user are read, without following links. Where the JVM cannot work relative to an
 * open folder (macOS), paths are used instead; there the parent folders must be safe from other users.
 */
final class SpoolFolder implements Closeable {
  private static final FileAttribute<?> PRIVATE_FOLDER = attribute("rwx------");
  private static final FileAttribute<?> PRIVATE_FILE = attribute("rw-------");
  private static final Set<PosixFilePermission> PRIVATE = PosixFilePermissions.fromString("rwx------");
  private static UserPrincipal me;

  /** A file in the folder. */
  static final class FileInfo {
    final String name;
    final long bytes;
    final long modifiedAt;
    final boolean isOurs; // a regular file of the driver's user

    private FileInfo(String name, PosixFileAttributes attributes) throws IOException {
      this.name = name;
      bytes = attributes.size();
      modifiedAt = attributes.lastModifiedTime().toMillis();
      isOurs = attributes.isRegularFile() && attributes.owner().equals(me());
    }
  }

  private final Path path;
  private final DirectoryStream<Path> stream;

  private SpoolFolder(Path path, DirectoryStream<Path> stream) {
    this.path = path;
    this.stream = stream;
  }

  /** Opens the folder, after creating it if {@code create}; fails if it cannot be trusted. */
  static SpoolFolder open(Path path, boolean create) throws IOException {
    if (create) Files.createDirectories(path.getParent(), PRIVATE_FOLDER);
    checkAbove(path.getParent());
    if (create && !Files.exists(path, LinkOption.NOFOLLOW_LINKS)) Files.createDirectories(path, PRIVATE_FOLDER);
    PosixFileAttributes named = Files.readAttributes(path, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    if (!named.isDirectory()) throw new IOException("it must be a folder, not a file or a link");
    SpoolFolder folder = new SpoolFolder(path, Files.newDirectoryStream(path));
    try {
      PosixFileAttributes opened = folder.attributes();
      if (!opened.fileKey().equals(named.fileKey())) throw new IOException("it was replaced while it was opened");
      if (!opened.owner().equals(me()))
        throw new IOException("it belongs to " + opened.owner().getName() + ", it must belong to " + me().getName());
      if (!opened.permissions().equals(PRIVATE)) {
        String mode = PosixFilePermissions.toString(opened.permissions());
        throw new IOException("its mode is " + mode + ", which lets other users in; it must be rwx------ (chmod 700)");
      }
      return folder;
    } catch (IOException | RuntimeException e) {
      folder.close();
      throw e;
    }
  }

  /** Fails if another user owns the parent folder and so could replace the folder. */
  private static void checkAbove(Path above) throws IOException {
    if (Files.getOwner(above).equals(me()) || Files.getAttribute(above, "unix:uid").equals(0)) return;
    throw new IOException(
        "the parent folder belongs to " + Files.getOwner(above).getName() + "; it must belong to " + me().getName()
        + " or root");
  }

  /** The owner of files that this JVM creates, which the user name does not always tell. */
  private static synchronized UserPrincipal me() throws IOException {
    if (me == null) {
      Path probe = Files.createTempFile("joinsight", null);
      me = Files.getOwner(probe);
      Files.delete(probe);
    }
    return me;
  }

  /** All files in the folder. Call it once at most. */
  List<FileInfo> list() throws IOException {
    List<FileInfo> files = new ArrayList<>();
    for (Path each : stream) {
      String name = each.getFileName().toString();
      try {
        files.add(new FileInfo(name, attributes(name)));
      } catch (NoSuchFileException delivered) {
        // Another driver has just delivered it
      }
    }
    return files;
  }

  /** The bytes of a file; fails if it is not a regular file of the driver's user or is larger than the limit. */
  byte[] read(String name, int limit) throws IOException {
    FileInfo file = new FileInfo(name, attributes(name));
    if (!file.isOurs) throw new IOException("it is not a regular file of " + me().getName());
    if (file.bytes > limit) throw new IOException("it is larger than " + limit + " bytes");
    ByteBuffer bytes = ByteBuffer.allocate((int) file.bytes);
    try (SeekableByteChannel channel = open(name, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)) {
      while (bytes.hasRemaining() && channel.read(bytes) >= 0) {}
    }
    return Arrays.copyOf(bytes.array(), bytes.position());
  }

  /** Writes a new file and flushes it to the disk. */
  void write(String name, byte[] body) throws IOException {
    try (
        SeekableByteChannel channel =
            open(name, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS)) {
      for (ByteBuffer buffer = ByteBuffer.wrap(body); buffer.hasRemaining();) channel.write(buffer);
      if (channel instanceof FileChannel) ((FileChannel) channel).force(false);
    }
  }

  void rename(String from, String to) throws IOException {
    if (stream instanceof SecureDirectoryStream) {
      secure().move(Paths.get(from), secure(), Paths.get(to));
    } else {
      Files.move(path.resolve(from), path.resolve(to), StandardCopyOption.ATOMIC_MOVE);
    }
  }

  void delete(String name) throws IOException {
    if (stream instanceof SecureDirectoryStream) {
      secure().deleteFile(Paths.get(name));
    } else {
      Files.delete(path.resolve(name));
    }
  }

  private SeekableByteChannel open(String name, OpenOption... options) throws IOException {
    Set<OpenOption> all = new HashSet<>(Arrays.asList(options));
    if (stream instanceof SecureDirectoryStream) return secure().newByteChannel(Paths.get(name), all, PRIVATE_FILE);
    return Files.newByteChannel(path.resolve(name), all, PRIVATE_FILE);
  }

  private PosixFileAttributes attributes() throws IOException {
    if (stream instanceof SecureDirectoryStream) {
      return secure().getFileAttributeView(PosixFileAttributeView.class).readAttributes();
    }
    return Files.readAttributes(path, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
  }

  private PosixFileAttributes attributes(String name) throws IOException {
    if (stream instanceof SecureDirectoryStream) {
      return secure()
          .getFileAttributeView(Paths.get(name), PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
          .readAttributes();
    }
    return Files.readAttributes(path.resolve(name), PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
  }

  private SecureDirectoryStream<Path> secure() {
    return (SecureDirectoryStream<Path>) stream;
  }

  private static FileAttribute<Set<PosixFilePermission>> attribute(String permissions) {
    return PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(permissions));
  }

  @Override
  public void close() throws IOException {
    stream.close();
  }
}
