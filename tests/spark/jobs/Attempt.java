import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.ExternalClusterManager;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.TaskScheduler;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.local.LocalSchedulerBackend;
import scala.Option;

public final class Attempt implements ExternalClusterManager {
  @Override
  public boolean canCreate(String master) {
    return master.startsWith("local-attempt-");
  }

  @Override
  public TaskScheduler createTaskScheduler(SparkContext context, String master) {
    return new TaskSchedulerImpl(context);
  }

  @Override
  public SchedulerBackend createSchedulerBackend(SparkContext context, String master, TaskScheduler scheduler) {
    return new LocalSchedulerBackend(context.getConf(), (TaskSchedulerImpl) scheduler, 1) {
      @Override
      public String applicationId() {
        return "application_1700000000000_0001";
      }

      @Override
      public Option<String> applicationAttemptId() {
        return Option.apply(master.substring("local-attempt-".length()));
      }
    };
  }

  @Override
  public void initialize(TaskScheduler scheduler, SchedulerBackend backend) {
    ((TaskSchedulerImpl) scheduler).initialize(backend);
  }
}
