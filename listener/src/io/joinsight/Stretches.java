package io.joinsight;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;

/**
 * Bytes of files of any Hadoop file system, a chunk at a time, for {@code joinsight backfill}: the listener has no use
 * for it. The setting has a line for each stretch: task, number, first byte, end (-1: the file's) and path. A stretch is
 * read up to the first end of a line at or after its last byte. A failure is a record too: -1 - number, and the reason.
 */
public final class Stretches extends InputFormat<IntWritable, BytesWritable> {
    static final String SETTING = "joinsight.stretches";
    private static final int CHUNK = 1 << 20;

    @Override
    public List<InputSplit> getSplits(JobContext context) {
        TreeMap<Integer, List<String>> tasks = new TreeMap<>();
        for (String line : context.getConfiguration().getRaw(SETTING).split("\n")) {
            String[] parts = line.split("\t", 2);
            tasks.computeIfAbsent(Integer.valueOf(parts[0]), task -> new ArrayList<>()).add(parts[1]);
        }
        List<InputSplit> splits = new ArrayList<>();
        for (List<String> lines : tasks.values()) {
            splits.add(new Task(lines));
        }
        return splits;
    }

    @Override
    public RecordReader<IntWritable, BytesWritable> createRecordReader(InputSplit split, TaskAttemptContext context) {
        return new Chunks();
    }

    /** Stretches that are read one after the other. */
    public static final class Task extends InputSplit implements Writable {
        private List<String> lines;

        public Task() {
            this(new ArrayList<>());
        }

        Task(List<String> lines) {
            this.lines = lines;
        }

        @Override
        public long getLength() {
            return lines.size();
        }

        @Override
        public String[] getLocations() {
            return new String[0];
        }

        @Override
        public void write(DataOutput out) throws IOException {
            out.writeInt(lines.size());
            for (String line : lines) {
                Text.writeString(out, line);
            }
        }

        @Override
        public void readFields(DataInput in) throws IOException {
            int size = in.readInt();
            lines = new ArrayList<>(size);
            for (int i = 0; i < size; i++) {
                lines.add(Text.readString(in));
            }
        }
    }

    private static final class Chunks extends RecordReader<IntWritable, BytesWritable> {
        private Configuration configuration;
        private List<String> lines;
        private int next;
        private int number;
        private FSDataInputStream file;
        private long at;
        private long end;
        private final IntWritable key = new IntWritable();
        private final byte[] buffer = new byte[CHUNK];
        private BytesWritable value;

        @Override
        public void initialize(InputSplit split, TaskAttemptContext context) {
            configuration = context.getConfiguration();
            lines = ((Task) split).lines;
        }

        @Override
        public boolean nextKeyValue() {
            while (true) {
                try {
                    if (file == null) {
                        if (next == lines.size()) {
                            return false;
                        }
                        open(lines.get(next++));
                    }
                    int size = read();
                    if (size > 0) {
                        key.set(number);
                        value = new BytesWritable(buffer, size);
                        return true;
                    }
                    close();
                } catch (IOException | RuntimeException e) {
                    closeQuietly();
                    byte[] reason = String.valueOf(e.getMessage() == null ? e : e.getMessage())
                            .getBytes(java.nio.charset.StandardCharsets.UTF_8);
                    key.set(-1 - number);
                    value = new BytesWritable(reason);
                    return true;
                }
            }
        }

        private void open(String line) throws IOException {
            String[] parts = line.split("\t", 4);
            number = Integer.parseInt(parts[0]);
            at = Long.parseLong(parts[1]);
            end = Long.parseLong(parts[2]);
            Path path = new Path(parts[3]);
            file = path.getFileSystem(configuration).open(path);
            file.seek(at);
        }

        /** Fills the buffer; 0 at the end. */
        private int read() throws IOException {
            if (end == 0) {
                return 0;
            }
            int size = 0;
            while (size < CHUNK) {
                int some = file.read(buffer, size, CHUNK - size);
                if (some < 0) {
                    break;
                }
                size += some;
            }
            if (end > 0 && at + size >= end) {
                for (int i = (int) Math.max(0, end - 1 - at); i < size; i++) {
                    if (buffer[i] == '\n') {
                        size = i + 1;
                        end = 0; // no more
                        break;
                    }
                }
            }
            at += size;
            return size;
        }

        private void closeQuietly() {
            try {
                close();
            } catch (IOException e) {
                file = null;
            }
        }

        @Override
        public IntWritable getCurrentKey() {
            return key;
        }

        @Override
        public BytesWritable getCurrentValue() {
            return value;
        }

        @Override
        public float getProgress() {
            return 0;
        }

        @Override
        public void close() throws IOException {
            FSDataInputStream open = file;
            file = null;
            if (open != null) {
                open.close();
            }
        }
    }
}
