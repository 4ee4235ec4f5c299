package borzoi.spark;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;

/**
 * The work of one task: a partition as the Python planner pickled it, and the ranges of segments
 * that the planner wrote into it (splits.py has the layout). Without ranges, Python reads all.
 */
final class SegmentSplit implements InputPartition {
    private static final byte[] MAGIC = "\u00ffborzoi-segments".getBytes(StandardCharsets.ISO_8859_1);
    private static final int RESUME_BYTES = 8;

    final PythonInputPartition planned;
    /** Where the offset from which Python is to read lies in the pickled bytes; -1 for none. */
    private final int resumeAt;
    final String stream;
    final String topic;
    final int partition;
    final String[] directories;
    final long[] bases;
    final long[] starts;
    final long[] ends;

    SegmentSplit(PythonInputPartition planned) {
        this.planned = planned;
        byte[] pickled = planned.pickedPartition();
        int found = find(pickled);
        this.resumeAt = found < 0 ? -1 : found + MAGIC.length;
        ByteBuffer plan = found < 0 ? null : ByteBuffer.wrap(pickled);
        int count = 0;
        if (plan == null) {
            this.stream = null;
            this.topic = null;
            this.partition = 0;
        } else {
            plan.position(resumeAt + RESUME_BYTES);
            this.stream = text(plan);
            this.topic = text(plan);
            this.partition = plan.getInt();
            count = plan.getInt();
        }
        this.directories = new String[count];
        this.bases = new long[count];
        this.starts = new long[count];
        this.ends = new long[count];
        for (int i = 0; i < count; i++) {
            directories[i] = text(plan);
            bases[i] = plan.getLong();
            starts[i] = plan.getLong();
            ends[i] = plan.getLong();
        }
    }

    boolean isDirect() {
        return resumeAt >= 0;
    }

    /** The partition for a Python reader that continues at an offset. */
    PythonInputPartition from(long offset) {
        byte[] pickled = (byte[]) planned.pickedPartition().clone();
        ByteBuffer.wrap(pickled).putLong(resumeAt, offset);
        return new PythonInputPartition(planned.index(), pickled);
    }

    private static String text(ByteBuffer plan) {
        byte[] encoded = new byte[plan.getShort() & 0xffff];
        plan.get(encoded);
        return new String(encoded, StandardCharsets.UTF_8);
    }

    private static int find(byte[] pickled) {
        for (int at = 0; at + MAGIC.length + RESUME_BYTES <= pickled.length; at++) {
            int same = 0;
            while (same < MAGIC.length && pickled[at + same] == MAGIC[same]) {
                same++;
            }
            if (same == MAGIC.length) {
                return at;
            }
        }
        return -1;
    }
}
