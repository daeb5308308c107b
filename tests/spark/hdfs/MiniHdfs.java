import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * HDFS on loopback: one NameNode and one DataNode in this process, until its input ends.
 *
 * <p>Arguments: a folder for its files, the user who may write below /lake, and the NameNode's port or 0. Its superuser is another
 * one. Prints {@code ready URL}, takes commands, a line each, and answers each with {@code done}: {@code quota PATH
 * BYTES}, {@code safemode ENTER|LEAVE}.
 */
public final class MiniHdfs {
    private MiniHdfs() {}

    public static void main(String[] arguments) throws Exception {
        UserGroupInformation.createRemoteUser("superuser").doAs((PrivilegedExceptionAction<Void>) () -> serve(arguments));
    }

    private static Void serve(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(arguments[0]).getAbsolutePath());
        configuration.setInt("dfs.blocksize", 1 << 20);
        configuration.setInt("dfs.replication", 1);
        configuration.set("dfs.namenode.fs-limits.min-block-size", "1024");
        configuration.set("dfs.permissions.superusergroup", "superusers");
        int port = Integer.parseInt(arguments[2]);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration)
                .numDataNodes(1)
                .nameNodePort(port)
                .format(!new File(arguments[0], "name-0-1").exists())
                .build()) {
            cluster.waitActive();
            DistributedFileSystem files = cluster.getFileSystem();
            Path lake = new Path("/lake");
            files.mkdirs(lake);
            files.setOwner(lake, arguments[1], arguments[1]);
            files.setPermission(new Path("/"), new FsPermission((short) 0755));
            System.out.println("ready " + files.getUri());
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                obey(files, line.split(" "));
                System.out.println("done");
            }
        }
        return null;
    }

    private static void obey(DistributedFileSystem files, String[] words) throws IOException {
        if (words[0].equals("quota")) {
            files.setQuota(new Path(words[1]), HdfsConstants.QUOTA_DONT_SET, Long.parseLong(words[2]));
        } else {
            files.setSafeMode(SafeModeAction.valueOf(words[1]));
        }
    }
}
