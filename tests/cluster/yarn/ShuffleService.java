import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.yarn.server.api.ApplicationInitializationContext;
import org.apache.hadoop.yarn.server.api.ApplicationTerminationContext;
import org.apache.hadoop.yarn.server.api.AuxiliaryService;
import org.apache.spark.network.TransportContext;
import org.apache.spark.network.server.TransportServer;
import org.apache.spark.network.shuffle.ExternalBlockHandler;
import org.apache.spark.network.shuffle.RemoteBlockPushResolver;
import org.apache.spark.network.util.MapConfigProvider;
import org.apache.spark.network.util.TransportConf;

/**
 * Spark's external shuffle service, which takes pushed blocks, as a service of YARN's nodes, without authentication. All
 * nodes are this machine: the first one's serves the others' executors, too.
 */
public final class ShuffleService extends AuxiliaryService {
  private static final AtomicBoolean IS_ON_PORT = new AtomicBoolean();
  private TransportContext context;
  private TransportServer server;

  public ShuffleService() {
    super("spark_shuffle");
  }

  @Override
  protected void serviceStart() throws Exception {
    boolean isFirst = IS_ON_PORT.compareAndSet(false, true);
    int port = isFirst ? getConfig().getInt("spark.shuffle.service.port", 0) : 0;
    TransportConf conf = new TransportConf("shuffle", new MapConfigProvider(Map.of()));
    RemoteBlockPushResolver merged = new RemoteBlockPushResolver(conf, null);
    context = new TransportContext(conf, new ExternalBlockHandler(conf, null, merged));
    server = context.createServer(port, List.of());
  }

  @Override
  protected void serviceStop() throws IOException {
    server.close();
    context.close();
  }

  @Override
  public void initializeApplication(ApplicationInitializationContext application) {}

  @Override
  public void stopApplication(ApplicationTerminationContext application) {}

  @Override
  public ByteBuffer getMetaData() {
    return ByteBuffer.allocate(0);
  }
}
