// Apache Kafka's own admin client, asked for a streams group with its topology. Usage: Topology HOST:PORT GROUP
// Prints the status, the assignor, and a line for each node: subtopology, name, successors, predecessors.

import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupTopologyDescription;

public final class Topology {
    private Topology() {}

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            DescribeStreamsGroupsOptions options = new DescribeStreamsGroupsOptions().includeTopologyDescription(true);
            StreamsGroupDescription group =
                admin.describeStreamsGroups(List.of(args[1]), options).describedGroups().get(args[1]).get();
            System.out.println(group.topologyDescriptionStatus() + " " + group.assignorName().orElse("none"));
            group.topologyDescription().ifPresent(Topology::print);
        }
    }

    private static void print(StreamsGroupTopologyDescription topology) {
        for (StreamsGroupTopologyDescription.Subtopology each : topology.subtopologies()) {
            for (StreamsGroupTopologyDescription.Node node : each.nodes()) {
                System.out.println(String.join(" ", each.id(), node.name(),
                    new TreeSet<>(node.successors()).toString(), new TreeSet<>(node.predecessors()).toString()));
            }
        }
        topology.globalStores().forEach(store ->
            System.out.println("global " + store.source().name() + " " + store.processor().name()));
    }
}
