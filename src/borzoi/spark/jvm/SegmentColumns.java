package borzoi.spark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Columns over the messages of one batch. A value is decoded when Spark asks for it, so columns
 * that a query does not use cost nothing. docs/storage-format.md has the layout of messages.
 */
final class SegmentColumns {
    static final int HEADER_BYTES = 64;
    static final int CHECKSUM_AT = 0;
    static final int ID_AT = 8;
    static final int OFFSET_AT = 24;
    static final int TIMESTAMP_AT = 32;
    static final int ORIGIN_TIMESTAMP_AT = 40;
    static final int USER_HEADERS_LENGTH_AT = 48;
    static final int PAYLOAD_LENGTH_AT = 52;
    static final int RESERVED_AT = 56;
    static final int ENTRY_BYTES = 16;
    static final int ENTRY_POSITION_AT = 4;
    static final int ENTRY_TIMESTAMP_AT = 8;

    private SegmentColumns() {
    }

    /** The column of this name; null when only Python knows it. */
    static ColumnVector of(String name, DataType type, Messages messages, SegmentSplit split) {
        String kind = type.typeName();
        if (name.equals("offset") && kind.equals("long")) {
            return new OffsetColumn(type, messages);
        } else if (name.equals("timestamp") && kind.equals("timestamp")) {
            return new TimestampColumn(type, messages);
        } else if (name.equals("origin_timestamp") && kind.equals("timestamp")) {
            return new OriginTimestampColumn(type, messages);
        } else if (name.equals("payload") && kind.equals("binary")) {
            return new PayloadColumn(type, messages);
        } else if (name.equals("headers") && kind.equals("binary")) {
            return new HeadersColumn(type, messages);
        } else if (name.equals("id") && kind.equals("binary")) {
            return new IdColumn(type, messages);
        } else if (name.equals("checksum") && kind.equals("long")) {
            return new ChecksumColumn(type, messages);
        } else if (name.equals("partition") && kind.equals("integer")) {
            return new PartitionColumn(type, messages, split.partition);
        } else if (name.equals("stream") && kind.equals("string")) {
            return new TextColumn(type, messages, split.stream);
        } else if (name.equals("topic") && kind.equals("string")) {
            return new TextColumn(type, messages, split.topic);
        }
        return null;
    }

    /** Whether the index has all that a column needs. */
    static boolean isIndexed(String name) {
        return name.equals("offset") || name.equals("timestamp") || name.equals("partition")
            || name.equals("stream") || name.equals("topic");
    }
}

/** The messages of one batch, or only their index entries. */
final class Messages {
    static final int ROWS_MAX = 4096;
    /** 128 KiB are slower; between this and 4 MiB the difference was not settled. */
    static final int BYTES_MAX = 512 * 1024;

    /** Without bodies the timestamps come from the index. */
    final boolean hasBodies;
    ByteBuffer bytes;
    /** Where the messages start in the bytes. */
    final int[] starts = new int[ROWS_MAX];
    final ByteBuffer entries = buffer((ROWS_MAX + 1) * SegmentColumns.ENTRY_BYTES);
    /** Where the first entry of the batch lies. */
    int entriesAt;
    long firstOffset;
    int count;

    Messages(boolean hasBodies) {
        this.hasBodies = hasBodies;
        this.bytes = hasBodies ? buffer(BYTES_MAX) : null;
    }

    static ByteBuffer buffer(int size) {
        return ByteBuffer.allocateDirect(size).order(ByteOrder.LITTLE_ENDIAN);
    }

    long field(int row, int at) {
        return bytes.getLong(starts[row] + at);
    }

    int length(int row, int at) {
        return bytes.getInt(starts[row] + at);
    }

    byte[] copy(int from, int length) {
        byte[] copied = new byte[length];
        bytes.get(from, copied);
        return copied;
    }
}

/** What all columns have in common: no nulls, and no type but their own. */
abstract class MessageColumn extends ColumnVector {
    final Messages messages;

    MessageColumn(DataType type, Messages messages) {
        super(type);
        this.messages = messages;
    }

    public void close() {
    }

    public boolean hasNull() {
        return false;
    }

    public int numNulls() {
        return 0;
    }

    public boolean isNullAt(int row) {
        return false;
    }

    public boolean getBoolean(int row) {
        throw new UnsupportedOperationException();
    }

    public byte getByte(int row) {
        throw new UnsupportedOperationException();
    }

    public short getShort(int row) {
        throw new UnsupportedOperationException();
    }

    public int getInt(int row) {
        throw new UnsupportedOperationException();
    }

    public long getLong(int row) {
        throw new UnsupportedOperationException();
    }

    public float getFloat(int row) {
        throw new UnsupportedOperationException();
    }

    public double getDouble(int row) {
        throw new UnsupportedOperationException();
    }

    public ColumnarArray getArray(int row) {
        throw new UnsupportedOperationException();
    }

    public ColumnarMap getMap(int row) {
        throw new UnsupportedOperationException();
    }

    public Decimal getDecimal(int row, int precision, int scale) {
        throw new UnsupportedOperationException();
    }

    public UTF8String getUTF8String(int row) {
        throw new UnsupportedOperationException();
    }

    public byte[] getBinary(int row) {
        throw new UnsupportedOperationException();
    }

    public ColumnVector getChild(int ordinal) {
        throw new UnsupportedOperationException();
    }
}

final class OffsetColumn extends MessageColumn {
    OffsetColumn(DataType type, Messages messages) {
        super(type, messages);
    }

    public long getLong(int row) {
        return messages.firstOffset + row;
    }
}

final class TimestampColumn extends MessageColumn {
    TimestampColumn(DataType type, Messages messages) {
        super(type, messages);
    }

    public long getLong(int row) {
        if (messages.hasBodies) {
            return messages.field(row, SegmentColumns.TIMESTAMP_AT);
        }
        int at = messages.entriesAt + row * SegmentColumns.ENTRY_BYTES;
        return messages.entries.getLong(at + SegmentColumns.ENTRY_TIMESTAMP_AT);
    }
}

/** Null beyond 63 bits, which clients may send. */
final class OriginTimestampColumn extends MessageColumn {
    OriginTimestampColumn(DataType type, Messages messages) {
        super(type, messages);
    }

    public boolean hasNull() {
        return numNulls() > 0;
    }

    public int numNulls() {
        int nulls = 0;
        for (int row = 0; row < messages.count; row++) {
            nulls += isNullAt(row) ? 1 : 0;
        }
        return nulls;
    }

    public boolean isNullAt(int row) {
        return getLong(row) < 0;
    }

    public long getLong(int row) {
        return messages.field(row, SegmentColumns.ORIGIN_TIMESTAMP_AT);
    }
}

final class ChecksumColumn extends MessageColumn {
    ChecksumColumn(DataType type, Messages messages) {
        super(type, messages);
    }

    public long getLong(int row) {
        return messages.field(row, SegmentColumns.CHECKSUM_AT);
    }
}

final class PayloadColumn extends MessageColumn {
    PayloadColumn(DataType type, Messages messages) {
        super(type, messages);
    }

    public byte[] getBinary(int row) {
        return messages.copy(
            messages.starts[row] + SegmentColumns.HEADER_BYTES,
            messages.length(row, SegmentColumns.PAYLOAD_LENGTH_AT));
    }
}

final class HeadersColumn extends MessageColumn {
    HeadersColumn(DataType type, Messages messages) {
        super(type, messages);
    }

    public byte[] getBinary(int row) {
        int body = messages.starts[row] + SegmentColumns.HEADER_BYTES;
        return messages.copy(
            body + messages.length(row, SegmentColumns.PAYLOAD_LENGTH_AT),
            messages.length(row, SegmentColumns.USER_HEADERS_LENGTH_AT));
    }
}

/** The most significant byte first. */
final class IdColumn extends MessageColumn {
    IdColumn(DataType type, Messages messages) {
        super(type, messages);
    }

    public byte[] getBinary(int row) {
        byte[] id = new byte[16];
        int last = messages.starts[row] + SegmentColumns.ID_AT + 15;
        for (int i = 0; i < 16; i++) {
            id[i] = messages.bytes.get(last - i);
        }
        return id;
    }
}

final class PartitionColumn extends MessageColumn {
    private final int value;

    PartitionColumn(DataType type, Messages messages, int value) {
        super(type, messages);
        this.value = value;
    }

    public int getInt(int row) {
        return value;
    }
}

final class TextColumn extends MessageColumn {
    private final UTF8String value;

    TextColumn(DataType type, Messages messages, String value) {
        super(type, messages);
        this.value = UTF8String.fromString(value);
    }

    public UTF8String getUTF8String(int row) {
        return value;
    }
}
