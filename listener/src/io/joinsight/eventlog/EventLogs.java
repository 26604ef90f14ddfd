package io.joinsight.eventlog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/**
 * The lines that {@link EventLogReader} produces, one record each, for {@code joinsight backfill} on a cluster. The
 * setting is a JSON array with an array of requests for each task.
 */
public final class EventLogs extends InputFormat<NullWritable, BytesWritable> {
  static final String SETTING = "joinsight.event_logs";

  @Override
  public List<InputSplit> getSplits(JobContext context) throws IOException {
    List<InputSplit> splits = new ArrayList<>();
    for (JsonNode task : new ObjectMapper().readTree(context.getConfiguration().getRaw(SETTING))) {
      List<String> logs = new ArrayList<>();
      for (JsonNode log : task) logs.add(log.toString());
      splits.add(new Split(logs));
    }
    return splits;
  }

  @Override
  public RecordReader<NullWritable, BytesWritable> createRecordReader(InputSplit split, TaskAttemptContext context) {
    return new Records();
  }

  /** Requests that one task reads one after the other. */
  public static final class Split extends InputSplit implements Writable {
    private List<String> logs;

    public Split() {
      this(new ArrayList<>());
    }

    Split(List<String> logs) {
      this.logs = logs;
    }

    @Override
    public long getLength() {
      return logs.size();
    }

    @Override
    public String[] getLocations() {
      return new String[0];
    }

    @Override
    public void write(DataOutput out) throws IOException {
      out.writeInt(logs.size());
      for (String log : logs) Text.writeString(out, log);
    }

    @Override
    public void readFields(DataInput in) throws IOException {
      int size = in.readInt();
      logs = new ArrayList<>(size);
      for (int i = 0; i < size; i++) logs.add(Text.readString(in));
    }
  }

  private static final class Records extends RecordReader<NullWritable, BytesWritable> {
    private Configuration configuration;
    private List<String> logs;
    private int next;
    private EventLogReader reader; // null: no log is open
    private byte[] line;

    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) {
      configuration = context.getConfiguration();
      logs = ((Split) split).logs;
    }

    @Override
    public boolean nextKeyValue() throws IOException {
      while (true) {
        line = reader == null ? null : reader.next();
        if (line != null) return true;
        close();
        if (next == logs.size()) return false;
        reader = new EventLogReader(logs.get(next++), configuration);
      }
    }

    @Override
    public NullWritable getCurrentKey() {
      return NullWritable.get();
    }

    @Override
    public BytesWritable getCurrentValue() {
      return new BytesWritable(line);
    }

    @Override
    public float getProgress() {
      return 0;
    }

    @Override
    public void close() {
      if (reader != null) reader.close();
    }
  }
}
