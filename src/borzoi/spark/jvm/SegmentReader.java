package borzoi.spark;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Locale;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the ranges of a split from plain segments. Whatever is not as planned (a segment that is
 * gone or was compressed since, an index that is too short, a message that does not fit its header)
 * is left to the Python reader, from the first message on that was not read here.
 */
final class SegmentReader implements PartitionReader {
    private static final Logger LOG = LoggerFactory.getLogger("borzoi.spark.SegmentReader");

    private final SegmentSplit split;
    private final StructType schema;
    private final PartitionReaderFactory python;
    private final Messages messages;
    private final ColumnarBatch batch;
    private PythonRows rest;

    private int piece = -1;
    private FileChannel index;
    private FileChannel log;
    /** The next message, and the byte at which it starts. */
    private long offset;
    private long position;
    /** The offset of the first entry that is loaded, and how many are. */
    private long loadedFrom;
    private int loaded;

    SegmentReader(SegmentSplit split, StructType schema, PartitionReaderFactory python) {
        this.split = split;
        this.schema = schema;
        this.python = python;
        String[] names = schema.fieldNames();
        boolean hasBodies = false;
        for (int i = 0; i < names.length; i++) {
            hasBodies |= !SegmentColumns.isIndexed(names[i]);
        }
        this.messages = new Messages(hasBodies);
        ColumnVector[] columns = new ColumnVector[names.length];
        for (int i = 0; i < names.length; i++) {
            columns[i] = SegmentColumns.of(names[i], schema.apply(i).dataType(), messages, split);
        }
        this.batch = new ColumnarBatch(columns);
        this.offset = split.starts[0];
    }

    public boolean next() throws IOException {
        if (rest == null) {
            try {
                return read();
            } catch (ClosedByInterruptException killed) {
                throw killed;
            } catch (Exception unexpected) {
                LOG.warn("from offset " + offset + " on Python reads " + name() + ": " + unexpected);
                closeFiles();
                rest = new PythonRows(python.createReader(split.from(offset)), schema);
            }
        }
        return rest.next();
    }

    public Object get() {
        return rest == null ? batch : rest.get();
    }

    public CustomTaskMetric[] currentMetricsValues() {
        return rest == null ? new CustomTaskMetric[0] : rest.currentMetricsValues();
    }

    public void close() throws IOException {
        closeFiles();
        if (rest != null) {
            rest.close();
        }
    }

    private boolean read() throws IOException {
        while (piece < 0 || offset == split.ends[piece]) {
            closeFiles();
            if (piece + 1 == split.bases.length) {
                return false;
            }
            open(piece + 1);
            piece++;
        }
        if (offset == loadedFrom + loaded) {
            loadEntries();
        }
        messages.firstOffset = offset;
        messages.entriesAt = (int) (offset - loadedFrom) * SegmentColumns.ENTRY_BYTES;
        messages.count = (int) (loadedFrom + loaded - offset);
        if (messages.hasBodies) {
            long end = cut();
            readFully(log, messages.bytes, (int) (end - position), position);
            check(end);
            position = end;
        }
        offset += messages.count;
        batch.setNumRows(messages.count);
        return true;
    }

    private void open(int number) throws IOException {
        String name = split.directories[number] + "/" + String.format(
            Locale.ROOT, "%020d", new Object[] {Long.valueOf(split.bases[number])});
        OpenOption[] reading = new OpenOption[] {StandardOpenOption.READ};
        index = FileChannel.open(Paths.get(name + ".index", new String[0]), reading);
        if (messages.hasBodies) {
            log = FileChannel.open(Paths.get(name + ".log", new String[0]), reading);
        }
        offset = split.starts[number];
        loadedFrom = offset;
        loaded = 0;
        position = 0;
        if (messages.hasBodies && offset > split.bases[number]) {
            long before = offset - 1 - split.bases[number];
            readFully(
                index, messages.entries, SegmentColumns.ENTRY_BYTES,
                before * SegmentColumns.ENTRY_BYTES);
            position = end(0);
        }
    }

    private String name() {
        return split.stream + "/" + split.topic + "[" + split.partition + "]";
    }

    private void closeFiles() throws IOException {
        if (index != null) {
            index.close();
            index = null;
        }
        if (log != null) {
            log.close();
            log = null;
        }
    }

    private void loadEntries() throws IOException {
        int count = (int) Math.min((long) Messages.ROWS_MAX, split.ends[piece] - offset);
        long first = offset - split.bases[piece];
        readFully(
            index, messages.entries, count * SegmentColumns.ENTRY_BYTES,
            first * SegmentColumns.ENTRY_BYTES);
        for (int i = 0; !messages.hasBodies && i < count; i++) {
            int at = i * SegmentColumns.ENTRY_BYTES + SegmentColumns.ENTRY_TIMESTAMP_AT;
            if (messages.entries.getLong(at) < 0) {
                throw new IOException("the timestamp of message " + (offset + i) + " is not one");
            }
        }
        loadedFrom = offset;
        loaded = count;
    }

    /** Where the message of an entry ends in the log. */
    private long end(int entryAt) {
        return messages.entries.getInt(entryAt + SegmentColumns.ENTRY_POSITION_AT) & 0xffffffffL;
    }

    /** Limits the batch to the messages that fit, at least one; returns where the last one ends. */
    private long cut() throws IOException {
        int[] starts = messages.starts;
        long end = position;
        int count = 0;
        while (count < messages.count) {
            long next = end(messages.entriesAt + count * SegmentColumns.ENTRY_BYTES);
            if (next - end < SegmentColumns.HEADER_BYTES || next - position > Integer.MAX_VALUE) {
                throw new IOException("an index entry leaves no room for a message header");
            }
            if (count > 0 && next - position > Messages.BYTES_MAX) {
                break;
            }
            starts[count] = (int) (end - position);
            end = next;
            count++;
        }
        messages.count = count;
        if (end - position > messages.bytes.capacity()) {
            if (end > log.size()) {
                throw new EOFException("the log of the segment ends before " + end);
            }
            messages.bytes = Messages.buffer((int) (end - position));
        }
        return end;
    }

    /** The same comparisons as `check_run` makes. */
    private void check(long end) throws IOException {
        ByteBuffer bytes = messages.bytes;
        int size = (int) (end - position);
        for (int row = 0; row < messages.count; row++) {
            int start = messages.starts[row];
            int stop = row + 1 < messages.count ? messages.starts[row + 1] : size;
            long body = (bytes.getInt(start + SegmentColumns.PAYLOAD_LENGTH_AT) & 0xffffffffL)
                + (bytes.getInt(start + SegmentColumns.USER_HEADERS_LENGTH_AT) & 0xffffffffL);
            if (body + SegmentColumns.HEADER_BYTES != stop - start
                || bytes.getLong(start + SegmentColumns.OFFSET_AT) != offset + row
                || bytes.getLong(start + SegmentColumns.RESERVED_AT) != 0
                || bytes.getLong(start + SegmentColumns.TIMESTAMP_AT) < 0) {
                throw new IOException("message " + (offset + row) + " does not fit its header");
            }
        }
    }

    private static void readFully(FileChannel file, ByteBuffer into, int size, long from)
            throws IOException {
        into.clear();
        into.limit(size);
        while (into.hasRemaining()) {
            if (file.read(into, from + into.position()) < 0) {
                throw new EOFException("a file of the segment ends before " + (from + size));
            }
        }
        into.clear();
    }
}

/** The rows of a Python reader as batches, for tasks of a scan that has batches. */
final class PythonRows implements PartitionReader {
    private static final int BYTES_MAX = 4 * 1024 * 1024;

    private final PartitionReader rows;
    private final RowToColumnConverter converter;
    private final WritableColumnVector[] columns;
    private final ColumnarBatch batch;

    PythonRows(PartitionReader rows, StructType schema) {
        this.rows = rows;
        this.converter = new RowToColumnConverter(schema);
        this.columns = OnHeapColumnVector.allocateColumns(Messages.ROWS_MAX, schema);
        this.batch = new ColumnarBatch(columns);
    }

    public boolean next() throws IOException {
        for (int i = 0; i < columns.length; i++) {
            columns[i].reset();
        }
        int count = 0;
        while (count < Messages.ROWS_MAX && size() < BYTES_MAX && rows.next()) {
            converter.convert((InternalRow) rows.get(), columns);
            count++;
        }
        batch.setNumRows(count);
        return count > 0;
    }

    private int size() {
        int size = 0;
        for (int i = 0; i < columns.length; i++) {
            if (columns[i].dataType() instanceof BinaryType) {
                size += columns[i].arrayData().getElementsAppended();
            }
        }
        return size;
    }

    public Object get() {
        return batch;
    }

    public CustomTaskMetric[] currentMetricsValues() {
        return rows.currentMetricsValues();
    }

    public void close() throws IOException {
        rows.close();
        batch.close();
    }
}
