package borzoi.spark;

import java.util.Collections;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.types.StructType;
import org.slf4j.LoggerFactory;

/** A scan that Python plans, and whose tasks read plain segments without Python. */
public final class SegmentScan implements Scan, SupportsMetadata {
    private final PythonScan python;

    SegmentScan(PythonScan python) {
        this.python = python;
    }

    public StructType readSchema() {
        return python.readSchema();
    }

    public String description() {
        return python.description() + " (JVM)";
    }

    public Batch toBatch() {
        return new SegmentBatch(python.toBatch(), python.readSchema());
    }

    public CustomMetric[] supportedCustomMetrics() {
        return python.supportedCustomMetrics();
    }

    public CustomTaskMetric[] reportDriverMetrics() {
        return python.reportDriverMetrics();
    }

    public Scan.ColumnarSupportMode columnarSupportMode() {
        return Scan.ColumnarSupportMode.PARTITION_DEFINED;
    }

    public scala.collection.immutable.Map getMetaData() {
        return python.getMetaData();
    }
}

final class SegmentBatch implements Batch {
    private final Batch python;
    private final StructType schema;
    private InputPartition[] planned;

    SegmentBatch(Batch python, StructType schema) {
        this.python = python;
        this.schema = schema;
    }

    public synchronized InputPartition[] planInputPartitions() {
        if (planned == null) {
            planned = plan();
        }
        return planned;
    }

    public PartitionReaderFactory createReaderFactory() {
        InputPartition[] partitions = planInputPartitions();
        boolean isDirect = partitions.length > 0 && partitions[0] instanceof SegmentSplit;
        PartitionReaderFactory rows = python.createReaderFactory();
        return isDirect ? new SegmentReaderFactory(rows, schema) : rows;
    }

    /** All partitions in a form for this scan, or none: Spark does not mix rows and batches. */
    private InputPartition[] plan() {
        InputPartition[] partitions = python.planInputPartitions();
        SegmentSplit[] splits = new SegmentSplit[partitions.length];
        boolean isDirect = false;
        for (int i = 0; i < partitions.length; i++) {
            splits[i] = new SegmentSplit((PythonInputPartition) partitions[i]);
            isDirect |= splits[i].isDirect();
        }
        return isDirect && isKnown(splits[0]) && Probe.isLoadedByExecutors() ? splits : partitions;
    }

    private boolean isKnown(SegmentSplit any) {
        String[] names = schema.fieldNames();
        for (int i = 0; i < names.length; i++) {
            if (SegmentColumns.of(names[i], schema.apply(i).dataType(), null, any) == null) {
                return false;
            }
        }
        return true;
    }
}

/** Whether executors can load these classes. Those in the process of the driver can. */
final class Probe implements Function {
    private static Boolean isLoaded;

    static synchronized boolean isLoadedByExecutors() {
        if (isLoaded == null) {
            SparkContext context = SparkContext.getOrCreate();
            isLoaded = Boolean.valueOf(context.isLocal() || isLoadedBy(new JavaSparkContext(context)));
        }
        return isLoaded.booleanValue();
    }

    private static boolean isLoadedBy(JavaSparkContext context) {
        try {
            context.parallelize(Collections.singletonList("probe"), 1).map(new Probe()).count();
            return true;
        } catch (Exception unloadable) {
            LoggerFactory.getLogger("borzoi.spark.SegmentScan").warn(
                "segments are read by Python: an executor cannot load the scan: " + unloadable);
            return false;
        }
    }

    public Object call(Object value) {
        return value;
    }
}

final class SegmentReaderFactory implements PartitionReaderFactory {
    private final PartitionReaderFactory python;
    private final StructType schema;

    SegmentReaderFactory(PartitionReaderFactory python, StructType schema) {
        this.python = python;
        this.schema = schema;
    }

    public boolean supportColumnarReads(InputPartition partition) {
        return true;
    }

    public PartitionReader createReader(InputPartition partition) {
        return python.createReader(((SegmentSplit) partition).planned);
    }

    public PartitionReader createColumnarReader(InputPartition partition) {
        SegmentSplit split = (SegmentSplit) partition;
        if (split.isDirect()) {
            return new SegmentReader(split, schema, python);
        }
        return new PythonRows(python.createReader(split.planned), schema);
    }
}
