package io.joinsight.delivery;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The CA certificates that the collector's must be signed by, from a file that may change while the driver runs. */
final class Trust {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");

  private final Path file;
  private byte[] content; // of the file; used by the sender's thread only
  private volatile SSLSocketFactory sockets;

  /** Reads the file; fails if it has no PEM certificate. */
  Trust(Path file) throws IOException, GeneralSecurityException {
    this.file = file;
    content = Files.readAllBytes(file);
    sockets = sockets(content);
  }

  SSLSocketFactory sockets() {
    return sockets;
  }

  /** Reads the file again; whether it has other certificates now. A file that cannot be read changes nothing. */
  boolean hasChanged() {
    try {
      byte[] now = Files.readAllBytes(file);
      if (Arrays.equals(now, content)) return false;
      sockets = sockets(now);
      content = now;
      LOG.info("Joinsight: {} has new certificates", file);
      return true;
    } catch (IOException | GeneralSecurityException | RuntimeException e) {
      return false; // it may be written at this moment; the next request that fails reads it again
    }
  }

  private static SSLSocketFactory sockets(byte[] pem) throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    CertificateFactory certificates = CertificateFactory.getInstance("X.509");
    for (Certificate certificate : certificates.generateCertificates(new ByteArrayInputStream(pem))) {
      store.setCertificateEntry("ca-" + store.size(), certificate);
    }
    if (store.size() == 0) throw new CertificateException("it has none");
    TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    managers.init(store);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, managers.getTrustManagers(), null);
    return context.getSocketFactory();
  }
}
