package borzoi.spark;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;

/** Puts this scan in the place of that of Python, in the queries of a session. */
public final class SegmentRule extends Rule {
    public SegmentRule() {
    }

    public TreeNode apply(TreeNode plan) {
        return plan.transform(new Replacement());
    }
}

final class Replacement extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object plan) {
        if (!(plan instanceof DataSourceV2ScanRelation)) {
            return false;
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) plan;
        return relation.scan() instanceof PythonScan
            && relation.relation().table().name().equals("borzoi");
    }

    public Object applyOrElse(Object plan, scala.Function1 otherwise) {
        if (!isDefinedAt(plan)) {
            return otherwise.apply(plan);
        }
        DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) plan;
        Object[] parts = new Object[relation.productArity()];
        for (int i = 0; i < parts.length; i++) {
            Object part = relation.productElement(i);
            parts[i] = part instanceof PythonScan ? new SegmentScan((PythonScan) part) : part;
        }
        return relation.makeCopy(parts);
    }
}
