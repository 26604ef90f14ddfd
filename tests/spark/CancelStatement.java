import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.FutureTask;

/** Runs a statement on a Thrift server as this user, and cancels it when one of its tasks runs. */
public final class CancelStatement {
  private static final String PROPERTY = "'java.lang.System', '%s', 'cancelled statement'";

  public static void main(String[] arguments) throws Exception {
    String url = arguments[0];
    String user = arguments[1];
    String started = "java_method(" + String.format(PROPERTY, "setProperty") + ", 'runs')";
    String endless = "java_method('java.lang.Thread', 'sleep', 6000000L)";
    try (Connection connection = DriverManager.getConnection(url, user, "");
         Statement statement = connection.createStatement();
         Connection unlocked = DriverManager.getConnection(url, user, "");
         Statement other = unlocked.createStatement()) {
      FutureTask<String> outcome = new FutureTask<>(() -> {
        try {
          statement.execute("SELECT '" + user + "' AS who, " + started + ", " + endless + " FROM range(1)");
          return "succeeded";
        } catch (SQLException e) {
          return "cancelled";
        }
      });
      new Thread(outcome).start();
      while (!isRunning(other)) Thread.sleep(100);
      statement.cancel();
      System.out.println(outcome.get());
    }
  }

  private static boolean isRunning(Statement other) throws SQLException {
    try (ResultSet rows = other.executeQuery("SELECT java_method(" + String.format(PROPERTY, "getProperty") + ")")) {
      rows.next();
      return "runs".equals(rows.getString(1));
    }
  }

  private CancelStatement() {}
}
